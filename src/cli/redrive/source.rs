//! Where the batches come from: files, a bucket, a queue.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::pin::pin;

use anyhow::Context as _;
use tablekeeper::adapters::cloud::{CloudError, DeadLetterBucket, DeadLetterQueue, Message};
use tablekeeper::adapters::dynamodb::find_credentials;

use crate::cli::context::{Stop, usage};
use crate::cli::output::warn;

/// No invocation record is larger: an event has 6 MB at most.
const FILE_SIZE_MAX: u64 = 32 * 1024 * 1024;

/// A place with letters, and those of them that are still to come.
pub enum Source {
    Files(VecDeque<PathBuf>),
    Bucket(DeadLetterBucket, VecDeque<String>),
    /// With the messages that stay in the queue.
    Queue(Box<DeadLetterQueue>, Vec<Message>),
}

/// One thing at the place: what should be a batch.
pub struct Letter {
    /// For messages: path, address or message id.
    pub place: String,
    at: At,
}

enum At {
    File(PathBuf),
    Object(String),
    Message(Message),
}

impl Source {
    /// Finds the place, and what is there; a queue says that only bit by bit.
    pub async fn open(from: &str) -> Result<Source, Stop> {
        let look = async |config: &_| find_credentials(config, None).await;
        if from.starts_with(DeadLetterBucket::SCHEME) {
            let bucket = DeadLetterBucket::open(from, look).await.map_err(stop)?;
            let keys = bucket.keys().await.map_err(stop)?;
            return Ok(Source::Bucket(bucket, keys.into()));
        }
        if [DeadLetterQueue::SCHEME, "https://", "http://"].iter().any(|scheme| from.starts_with(scheme)) {
            return Ok(Source::Queue(Box::new(DeadLetterQueue::open(from, look).await.map_err(stop)?), Vec::new()));
        }
        let path = Path::new(from);
        let mut files = Vec::new();
        let found = std::fs::metadata(path).and_then(|found| {
            if found.is_dir() {
                return walk(path, &mut files);
            }
            files.push(path.to_owned());
            Ok(())
        });
        found
            .with_context(|| {
                format!("cannot read `{from}`; give a file, a folder, s3://BUCKET/PREFIX, sqs://NAME or a queue's URL")
            })
            .map_err(usage)?;
        Ok(Source::Files(files.into()))
    }

    /// How many letters there are; `None` where nobody knows.
    pub fn expected(&self) -> Option<u64> {
        match self {
            Source::Files(files) => Some(files.len() as u64),
            Source::Bucket(_, keys) => Some(keys.len() as u64),
            Source::Queue(..) => None,
        }
    }

    /// The next letter; each comes once.
    pub async fn next(&mut self) -> Result<Option<Letter>, Stop> {
        Ok(match self {
            Source::Files(files) => {
                files.pop_front().map(|path| Letter { place: path.display().to_string(), at: At::File(path) })
            }
            Source::Bucket(bucket, keys) => {
                keys.pop_front().map(|key| Letter { place: bucket.shown(&key), at: At::Object(key) })
            }
            Source::Queue(queue, _) => {
                let message = queue.receive().await.map_err(stop)?;
                message.map(|message| Letter { place: format!("message {}", message.id), at: At::Message(message) })
            }
        })
    }

    /// What is in the letter.
    pub async fn bytes(&self, letter: &Letter) -> anyhow::Result<Vec<u8>> {
        let bytes = match (self, &letter.at) {
            (_, At::Message(message)) => return Ok(message.body.clone().into_bytes()),
            (Source::Bucket(bucket, _), At::Object(key)) => bucket.read(key).await?,
            (_, At::File(path)) => {
                let size = std::fs::metadata(path)?.len();
                anyhow::ensure!(
                    size <= FILE_SIZE_MAX,
                    "it has {size} bytes, no invocation record has more than {FILE_SIZE_MAX}"
                );
                std::fs::read(path)?
            }
            (_, At::Object(key)) => anyhow::bail!("`{key}` is in no bucket"),
        };
        Ok(bytes)
    }

    /// Takes away a letter that is done. False where it stays, because files do.
    pub async fn remove(&self, letter: &Letter) -> Result<bool, CloudError> {
        match (self, &letter.at) {
            (Source::Bucket(bucket, _), At::Object(key)) => bucket.delete(key).await.map(|()| true),
            (Source::Queue(queue, _), At::Message(message)) => queue.delete(message).await.map(|()| true),
            _ => Ok(false),
        }
    }

    /// Leaves the letter where it is.
    pub fn leave(&mut self, letter: Letter) {
        if let (Source::Queue(_, left), At::Message(message)) = (self, letter.at) {
            left.push(message);
        }
    }

    /// Does `work` on the letter, and keeps it from others meanwhile.
    pub async fn holding<T>(&self, letter: &Letter, work: impl Future<Output = T>) -> T {
        let (Source::Queue(queue, _), At::Message(message)) = (self, &letter.at) else { return work.await };
        let mut work = pin!(work);
        loop {
            tokio::select! {
                done = &mut work => return done,
                () = tokio::time::sleep(queue.hold_every()) => {
                    // Who else has it does the same, and nothing is counted twice.
                    if let Err(error) = queue.hold(message).await {
                        warn(format_args!("{} is not kept from others: {error}", letter.place));
                    }
                }
            }
        }
    }

    /// Gives back to others what stays.
    pub async fn close(self) {
        if let Source::Queue(queue, left) = self {
            for message in &left {
                // Where it fails they have the message after a while.
                let _ = queue.release(message).await;
            }
        }
    }
}

fn stop(error: CloudError) -> Stop {
    if error.is_usage() { usage(error) } else { error.into() }
}

/// All files below a folder, by their paths. Links to folders are not followed: they may lead back.
fn walk(folder: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    let mut entries = std::fs::read_dir(folder)?.collect::<Result<Vec<_>, _>>()?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        if entry.file_type()?.is_dir() {
            walk(&entry.path(), files)?;
        } else if std::fs::metadata(entry.path()).is_ok_and(|found| found.is_file()) {
            files.push(entry.path());
        }
    }
    Ok(())
}
