//! The same from a bucket and a queue, on a server that plays AWS's part.
//!
//! `tests/aws.sh` starts it and sets the variable; without it the tests say so and stop.

use std::time::Duration;

use aws_sdk_s3::config::{BehaviorVersion, Credentials, Region};
use serde_json::{Value as Json, json};
use tablekeeper::adapters::cloud::DeadLetterQueue;

use super::{World, key, outcomes};
use crate::program::{Ended, Program, command};

/// Endpoint of the server.
const SERVER: &str = "TABLEKEEPER_AWS";
const REGION: &str = "eu-central-1";

/// The server, and clients of it.
struct Aws {
    endpoint: String,
    s3: aws_sdk_s3::Client,
    sqs: aws_sdk_sqs::Client,
}

impl Aws {
    fn new() -> Option<Aws> {
        let Ok(endpoint) = std::env::var(SERVER) else {
            eprintln!("skipped: {SERVER} is not set; tests/aws.sh sets it");
            return None;
        };
        let credentials = Credentials::new("none", "none", None, None, "test");
        let s3 = aws_sdk_s3::Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .endpoint_url(&endpoint)
            .credentials_provider(credentials.clone())
            .region(Region::new(REGION))
            .force_path_style(true)
            .build();
        let sqs = aws_sdk_sqs::Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .endpoint_url(&endpoint)
            .credentials_provider(credentials)
            .region(Region::new(REGION))
            .build();
        Some(Aws { endpoint, s3: aws_sdk_s3::Client::from_conf(s3), sqs: aws_sdk_sqs::Client::from_conf(sqs) })
    }

    async fn bucket(&self, name: &str) {
        let place = aws_sdk_s3::types::CreateBucketConfiguration::builder()
            .location_constraint(aws_sdk_s3::types::BucketLocationConstraint::from(REGION))
            .build();
        self.s3.create_bucket().bucket(name).create_bucket_configuration(place).send().await.unwrap();
    }

    async fn put(&self, bucket: &str, key: &str, text: String) {
        self.s3.put_object().bucket(bucket).key(key).body(text.into_bytes().into()).send().await.unwrap();
    }

    async fn keys(&self, bucket: &str) -> Vec<String> {
        let listed = self.s3.list_objects_v2().bucket(bucket).send().await.unwrap();
        listed.contents().iter().map(|object| object.key().unwrap().to_owned()).collect()
    }

    async fn queue(&self, name: &str) -> String {
        self.sqs.create_queue().queue_name(name).send().await.unwrap().queue_url.unwrap()
    }

    /// Messages that can be seen, and those that somebody has.
    async fn messages(&self, queue: &str) -> (u32, u32) {
        use aws_sdk_sqs::types::QueueAttributeName::{
            ApproximateNumberOfMessages, ApproximateNumberOfMessagesNotVisible,
        };
        let asked = [ApproximateNumberOfMessages, ApproximateNumberOfMessagesNotVisible];
        let request = self.sqs.get_queue_attributes().queue_url(queue).set_attribute_names(Some(asked.to_vec()));
        let told = request.send().await.unwrap().attributes.unwrap();
        let [seen, hidden] = asked.map(|name| told[&name].parse().unwrap());
        (seen, hidden)
    }

    /// The program with the SDK's own settings for this server.
    async fn redrive(&self, world: &World, more: &[&str]) -> Ended {
        let mut command = command(&world.arguments("redrive", more));
        command
            .env("AWS_ENDPOINT_URL_S3", &self.endpoint)
            .env("AWS_ENDPOINT_URL_SQS", &self.endpoint)
            .env("AWS_REGION", REGION)
            .env("AWS_ACCESS_KEY_ID", "none")
            .env("AWS_SECRET_ACCESS_KEY", "none");
        Program::spawn(command).end().await
    }
}

#[tokio::test]
async fn a_bucket_is_emptied_of_what_is_applied() {
    let Some(aws) = Aws::new() else { return };
    let world = World::after_a_day().await;
    let batches = world.batches();
    aws.bucket("letters").await;
    for (number, batch) in batches.iter().enumerate() {
        aws.put("letters", &key(number), world.letter(batch, true).to_string()).await;
    }
    let stranger = "aws/lambda/1e-mapping/of-another";
    aws.put("letters", stranger, json!({ "KinesisBatchInfo": {} }).to_string()).await;
    aws.put("letters", "elsewhere/x", "no letter at all".to_owned()).await;
    let from = ["--from", "s3://letters/aws/lambda/"];

    let listed = aws.redrive(&world, &[&from[..], &["--dry-run"]].concat()).await.expect(3).json();
    assert_eq!(outcomes(&listed), [vec!["applicable"; batches.len()], vec!["refused"]].concat());
    let kept = aws.redrive(&world, &[&from[..], &["--keep"]].concat()).await.expect(3).json();
    assert_eq!(outcomes(&kept), [vec!["applied"; batches.len()], vec!["refused"]].concat());
    assert_eq!(aws.keys("letters").await.len(), batches.len() + 2);
    world.exact().await;

    let ended = aws.redrive(&world, &from).await.expect(3);
    let redriven = ended.json();
    assert_eq!(redriven["applied"], json!(0), "it was applied before");
    let removed = redriven["batches"].as_array().unwrap().iter().filter(|batch| batch["removed"] == json!(true));
    assert_eq!(removed.count(), batches.len());
    assert!(ended.says(&format!("s3://letters/{stranger}: it is about a Kinesis stream")), "{:?}", ended.log);
    assert_eq!(aws.keys("letters").await, [stranger, "elsewhere/x"]);
    world.exact().await;

    let ended = aws.redrive(&world, &["--from", "s3://no-such-bucket"]).await.expect(2);
    assert!(ended.says("there is no bucket `no-such-bucket`"), "{:?}", ended.log);
    world.close().await;
}

#[tokio::test]
async fn a_bucket_of_more_than_one_page_is_read_to_its_end() {
    let Some(aws) = Aws::new() else { return };
    let world = World::after_a_day().await;
    aws.bucket("many-letters").await;
    let letter = world.letter(&world.records, true).to_string();
    for number in 0..1_003 {
        aws.put("many-letters", &key(number), if number == 1_002 { letter.clone() } else { "{}".to_owned() }).await;
    }
    let ended = aws.redrive(&world, &["--from", "s3://many-letters"]).await.expect(3);
    let redriven = ended.json();
    assert_eq!(redriven["batches"].as_array().unwrap().len(), 1_003);
    assert_eq!(outcomes(&redriven).last(), Some(&"applied"));
    assert!(ended.log.len() < 30 && ended.says("only counted"), "{}", ended.log.len());
    world.exact().await;
    world.close().await;
}

#[tokio::test]
async fn a_queue_is_emptied_of_what_is_applied() {
    let Some(aws) = Aws::new() else { return };
    let world = World::after_a_day().await;
    let batches = world.batches();
    let url = aws.queue("letters").await;
    let send = |body: String| aws.sqs.send_message().queue_url(&url).message_body(body).send();
    for batch in &batches {
        send(world.letter(batch, false).to_string()).await.unwrap();
    }
    send("hello".to_owned()).await.unwrap();
    let all = batches.len() as u32 + 1;
    let count = |redriven: &Json, outcome: &str| outcomes(redriven).iter().filter(|found| **found == outcome).count();

    // Looking leaves everything to others, and so does --keep.
    for (more, outcome) in [("--dry-run", "applicable"), ("--keep", "applied")] {
        let redriven = aws.redrive(&world, &["--from", &url, more]).await.expect(3).json();
        assert_eq!((count(&redriven, outcome), count(&redriven, "refused")), (batches.len(), 1));
        assert_eq!(aws.messages(&url).await, (all, 0));
    }
    world.exact().await;
    let redriven = aws.redrive(&world, &["--from", "sqs://letters"]).await.expect(3).json();
    assert_eq!((count(&redriven, "applied"), redriven["applied"].as_u64()), (batches.len(), Some(0)));
    assert_eq!(aws.messages(&url).await, (1, 0), "what is no batch stays, for whoever it is");
    world.exact().await;

    let ended = aws.redrive(&world, &["--from", "sqs://no-such-queue"]).await.expect(2);
    assert!(ended.says("there is no queue `no-such-queue`"), "{:?}", ended.log);
    world.close().await;
}

#[tokio::test]
async fn a_message_that_is_worked_on_is_kept_from_others() {
    let Some(aws) = Aws::new() else { return };
    let url = aws.queue("long-work").await;
    aws.sqs.send_message().queue_url(&url).message_body("a").send().await.unwrap();
    let mut queue = DeadLetterQueue::new(aws.sqs.clone(), &url);
    queue.hidden_seconds = 6;
    assert_eq!(queue.hold_every(), Duration::from_secs(2));
    let message = queue.receive().await.unwrap().unwrap();
    assert_eq!((message.body.as_str(), aws.messages(&url).await), ("a", (0, 1)));
    tokio::time::sleep(Duration::from_secs(4)).await;
    queue.hold(&message).await.unwrap();
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(aws.messages(&url).await, (0, 1));
    queue.release(&message).await.unwrap();
    assert_eq!(aws.messages(&url).await, (1, 0));
    // Delivered once more, it is the same one: this reader has had it.
    assert_eq!(queue.receive().await, Ok(None));
    queue.release(&message).await.unwrap();
    queue.delete(&message).await.unwrap();
    assert_eq!(aws.messages(&url).await, (0, 0));
}

#[tokio::test]
async fn a_gap_is_written_down_before_its_message_is_deleted() {
    let Some(aws) = Aws::new() else { return };
    let world = World::after_a_day().await;
    let url = aws.queue("lost-letters").await;
    aws.sqs.send_message().queue_url(&url).message_body(world.gone(&world.records)).send().await.unwrap();
    aws.redrive(&world, &["--from", &url, "--on-gap", "halt"]).await.expect(3);
    assert_eq!(aws.messages(&url).await, (0, 0));
    // The queue is empty, and still the next run reconciles.
    let redriven = aws.redrive(&world, &["--from", &url]).await.expect(0).json();
    assert_eq!((&redriven["batches"], &redriven["gap"]), (&json!([]), &Json::Null));
    assert!(redriven["reconcile"]["reconciled"].as_u64() > Some(0), "{redriven}");
    world.exact().await;
    world.close().await;
}
