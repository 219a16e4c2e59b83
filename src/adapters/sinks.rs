//! Sinks: readable lines, a file of JSON lines, and a topic of Amazon SNS.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use crate::engine::ports::{Notification, Sink, SinkError};

#[cfg(feature = "cloud")]
mod topic;

#[cfg(feature = "cloud")]
pub use topic::TopicSink;

/// One readable line a notification: `[overdue] certificate of tech003 expired 380 days ago, 2025-11-15 (to manager001)`.
#[derive(Debug)]
pub struct LineSink<W> {
    out: Mutex<W>,
}

impl LineSink<std::io::Stdout> {
    pub fn stdout() -> LineSink<std::io::Stdout> {
        LineSink::new(std::io::stdout())
    }
}

impl<W: Write + Send> LineSink<W> {
    pub fn new(out: W) -> LineSink<W> {
        LineSink { out: Mutex::new(out) }
    }
}

impl<W: Write + Send> Sink for LineSink<W> {
    async fn send(&self, notification: &Notification) -> Result<(), SinkError> {
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        // One write: lines of several processes on one terminal do not mix.
        let line = readable(notification) + "\n";
        out.write_all(line.as_bytes()).and_then(|()| out.flush()).map_err(|error| SinkError(error.to_string()))
    }
}

/// The line of a notification, without its end. Control characters inside values are shown as escapes: a value can neither end
/// the line nor steer a terminal.
pub fn readable(notification: &Notification) -> String {
    let Notification { state, message, owner, .. } = notification;
    let line = match owner {
        Some(owner) => format!("[{state}] {message} (to {owner})"),
        None => format!("[{state}] {message}"),
    };
    line.chars().flat_map(|c| if c.is_control() { c.escape_default().collect::<Vec<_>>() } else { vec![c] }).collect()
}

/// Appends one JSON object a line to a file. A notification is on the disk before it counts as sent.
#[derive(Debug)]
pub struct JsonLinesSink {
    file: Mutex<File>,
    path: String,
}

impl JsonLinesSink {
    /// Opens or creates the file. A last line that was cut off by a crash is ended, so that the next object has its own line.
    ///
    /// # Errors
    /// The file cannot be opened, read or written.
    pub fn open(path: &Path) -> Result<JsonLinesSink, SinkError> {
        let shown = path.display().to_string();
        let fault = |error: std::io::Error| SinkError(format!("{shown}: {error}"));
        let mut file = OpenOptions::new().create(true).append(true).read(true).open(path).map_err(fault)?;
        if file.seek(SeekFrom::End(0)).map_err(fault)? > 0 {
            let mut last = [0];
            file.seek(SeekFrom::End(-1)).map_err(fault)?;
            file.read_exact(&mut last).map_err(fault)?;
            if last != *b"\n" {
                file.write_all(b"\n").map_err(fault)?;
            }
        }
        Ok(JsonLinesSink { file: Mutex::new(file), path: shown })
    }
}

impl Sink for JsonLinesSink {
    async fn send(&self, notification: &Notification) -> Result<(), SinkError> {
        let mut line = serde_json::to_vec(notification).map_err(|error| SinkError(error.to_string()))?;
        line.push(b'\n');
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let written = file.write_all(&line).and_then(|()| file.sync_data());
        written.map_err(|error| SinkError(format!("{}: {error}", self.path)))
    }
}

/// The sinks that need no service, to be had together.
#[derive(Debug)]
pub enum LocalSink {
    Stdout(LineSink<std::io::Stdout>),
    JsonLines(JsonLinesSink),
}

impl Sink for LocalSink {
    async fn send(&self, notification: &Notification) -> Result<(), SinkError> {
        match self {
            LocalSink::Stdout(sink) => sink.send(notification).await,
            LocalSink::JsonLines(sink) => sink.send(notification).await,
        }
    }
}

/// Several sinks as one: sent when every one has it. If one fails, all get it again with the next attempt, under the same id.
#[derive(Debug, Default)]
pub struct Sinks<K>(pub Vec<K>);

impl<K: Sink> Sink for Sinks<K> {
    async fn send(&self, notification: &Notification) -> Result<(), SinkError> {
        let mut reasons = Vec::new();
        for sink in &self.0 {
            if let Err(SinkError(reason)) = sink.send(notification).await {
                reasons.push(reason);
            }
        }
        if reasons.is_empty() { Ok(()) } else { Err(SinkError(reasons.join("; "))) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub fn notification(subject: &str) -> Notification {
        Notification {
            id: "e#30".to_owned(),
            expiry: "certificate".to_owned(),
            subject: subject.to_owned(),
            owner: Some("manager001".to_owned()),
            state: "upcoming".to_owned(),
            threshold_days: 30,
            date: "2026-12-31".to_owned(),
            due: "2026-12-31T23:00:00Z".parse().unwrap(),
            message: format!("certificate of {subject} expires in 30 days, 2026-12-31"),
        }
    }

    #[tokio::test]
    async fn one_readable_line_whatever_the_value() {
        let sink = LineSink::new(Vec::new());
        sink.send(&notification("José")).await.unwrap();
        sink.send(&notification("a\nb\u{1b}[31m")).await.unwrap();
        let text = String::from_utf8(sink.out.into_inner().unwrap()).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "[upcoming] certificate of José expires in 30 days, 2026-12-31 (to manager001)");
        assert!(lines[1].contains(r"a\nb\u{1b}[31m"), "{}", lines[1]);
        assert_eq!(lines.len(), 2);
    }

    #[tokio::test]
    async fn json_lines_are_appended_after_a_torn_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("alerts.jsonl");
        let first = JsonLinesSink::open(&path).unwrap();
        first.send(&notification("a\nb")).await.unwrap();
        drop(first);
        std::fs::write(&path, std::fs::read_to_string(&path).unwrap() + "{\"id\":\"to").unwrap();
        JsonLinesSink::open(&path).unwrap().send(&notification("c")).await.unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let read: Vec<Option<Notification>> = text.lines().map(|line| serde_json::from_str(line).ok()).collect();
        assert_eq!(read, [Some(notification("a\nb")), None, Some(notification("c"))]);
    }

    #[tokio::test]
    async fn a_failing_sink_fails_the_whole_and_the_others_still_get_it() {
        let folder = tempfile::tempdir().unwrap();
        let good = folder.path().join("good.jsonl");
        let full = File::options().write(true).open("/dev/full");
        let Ok(full) = full else {
            eprintln!("no device that is always full here: not tested");
            return;
        };
        let broken = JsonLinesSink { file: Mutex::new(full), path: "full.jsonl".to_owned() };
        let sinks = Sinks(vec![broken, JsonLinesSink::open(&good).unwrap()]);
        let error = sinks.send(&notification("a")).await.unwrap_err();
        assert!(error.0.starts_with("full.jsonl: "), "{error}");
        assert_eq!(std::fs::read_to_string(&good).unwrap().lines().count(), 1);
        assert!(JsonLinesSink::open(folder.path()).is_err());
    }
}
