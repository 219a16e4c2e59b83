//! A proxy in front of a database, which decides about each request: what goes wrong between a program and its database.

use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

/// What becomes of a request.
pub enum Fate {
    Pass,
    /// It is done, and the connection ends before its answer.
    Lose,
    /// It is done; then somebody is told, and its answer never comes.
    Hold(Arc<Notify>),
    /// It is not done; this status and body come back.
    Refuse(u16, String),
}

/// The address of a proxy before `endpoint`; `judge` sees each request whole.
pub async fn proxy(endpoint: &str, judge: impl Fn(&str) -> Fate + Send + Sync + 'static) -> String {
    let database = endpoint.strip_prefix("http://").unwrap().to_owned();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let judge = Arc::new(judge);
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let server = TcpStream::connect(&database).await.unwrap();
            let judge = Arc::clone(&judge);
            tokio::spawn(async move { pass_on(client, server, judge.as_ref()).await });
        }
    });
    format!("http://{address}")
}

/// Until one of them hangs up, or `judge` has it so.
async fn pass_on(mut client: TcpStream, mut server: TcpStream, judge: &(impl Fn(&str) -> Fate + Sync)) -> Option<()> {
    loop {
        let request = message(&mut client).await?;
        let fate = judge(&String::from_utf8_lossy(&request));
        let answer = match &fate {
            Fate::Refuse(status, body) => {
                let head = format!("HTTP/1.1 {status} Refused\r\ncontent-type: application/x-amz-json-1.0");
                format!("{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into_bytes()
            }
            _ => {
                server.write_all(&request).await.ok()?;
                message(&mut server).await?
            }
        };
        match fate {
            Fate::Lose => return None,
            Fate::Hold(told) => {
                told.notify_one();
                std::future::pending::<()>().await;
            }
            Fate::Pass | Fate::Refuse(..) => client.write_all(&answer).await.ok()?,
        }
    }
}

/// One HTTP message with the length that its head says; `None` at the end of the connection.
pub async fn message(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let head = loop {
        if let Some(at) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break at + 4;
        }
        (stream.read_buf(&mut bytes).await.ok()? > 0).then_some(())?;
    };
    let text = String::from_utf8_lossy(&bytes[..head]).to_lowercase();
    let length = text.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse::<usize>().ok())?;
    while bytes.len() < head + length {
        (stream.read_buf(&mut bytes).await.ok()? > 0).then_some(())?;
    }
    Some(bytes)
}
