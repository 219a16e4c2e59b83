//! Services of AWS beside DynamoDB. Region, credentials and endpoints follow the SDK's own conventions (`AWS_REGION`,
//! `AWS_PROFILE`, `AWS_ENDPOINT_URL_S3`, `AWS_ENDPOINT_URL_SQS`, …).

mod deadletters;

pub use deadletters::{CloudError, DeadLetterBucket, DeadLetterQueue, Message};
