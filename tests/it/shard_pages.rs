//! A stream's description comes in pages of a hundred shards; one that is missed is never read. No database here has more than one
//! shard, so a few lines of HTTP stand in.

use std::collections::BTreeSet;

use tablekeeper::adapters::dynamodb::{Connection, DynamoStream};
use tablekeeper::engine::ports::{StreamError, StreamSource};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

use crate::proxy::message;

/// What a page lists, and the id that leads to the next one.
type Page = (Vec<usize>, Option<&'static str>);

fn id(shard: usize) -> String {
    format!("shardId-{shard:020}-{shard:08x}")
}

/// A server of one stream whose n-th request is answered by the n-th page, around.
async fn serve(pages: Vec<Page>) -> DynamoStream {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let mut pages = pages.iter().cycle();
        while let Ok((mut client, _)) = listener.accept().await {
            while message(&mut client).await.is_some() {
                let body = body(pages.next().unwrap());
                let head = "HTTP/1.1 200 OK\r\ncontent-type: application/x-amz-json-1.0";
                let answer = format!("{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
                client.write_all(answer.as_bytes()).await.unwrap();
            }
        }
    });
    let connection = Connection::local(&endpoint).await.unwrap();
    DynamoStream::new(&connection, "arn:aws:dynamodb:eu-central-1:000000000000:table/T/stream/1")
}

fn body((shards, last): &Page) -> String {
    let shard = |n: &usize| match n.checked_sub(50) {
        Some(parent) => format!("{{\"ShardId\":\"{}\",\"ParentShardId\":\"{}\"}}", id(*n), id(parent)),
        None => format!("{{\"ShardId\":\"{}\",\"ParentShardId\":\"\"}}", id(*n)),
    };
    let shards: Vec<String> = shards.iter().map(shard).collect();
    let last = last.map_or("null".to_owned(), |last| format!("\"{last}\""));
    format!("{{\"StreamDescription\":{{\"Shards\":[{}],\"LastEvaluatedShardId\":{last}}}}}", shards.join(","))
}

#[tokio::test]
async fn all_shards_of_shuffled_pages_are_found_once() {
    // Flink 36215: 250 shards, no page in order, some shards on two pages, a page without any, and the end shows by the last id alone.
    let shuffled = |from: usize| -> Vec<usize> { (0..100).map(|n| (from + n * 37 % 100) * 17 % 250).collect() };
    let pages =
        vec![(shuffled(0), Some("x")), (Vec::new(), Some("a")), (shuffled(100), Some("m")), (shuffled(150), Some(""))];
    let stream = serve(pages).await;
    for _ in 0..2 {
        let shards = stream.describe().await.unwrap().shards;
        let ids: BTreeSet<&str> = shards.iter().map(|shard| shard.id.as_str()).collect();
        assert_eq!((shards.len(), ids.len()), (250, 250));
        assert_eq!(shards.iter().filter(|shard| shard.parent.is_none()).count(), 50, "an empty parent is none");
        assert!(shards.iter().all(|shard| shard.parent.as_deref().is_none_or(|parent| ids.contains(parent))));
    }
}

#[tokio::test]
async fn pages_that_lead_in_a_circle_are_an_error() {
    for circle in [vec![(vec![1], Some("a"))], vec![(vec![1], Some("a")), (vec![2], Some("b"))]] {
        let stream = serve(circle).await;
        assert!(matches!(stream.describe().await, Err(StreamError::Unavailable(_))));
    }
}
