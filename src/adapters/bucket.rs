//! A bucket of Amazon S3, to which files are written.

use aws_config::SdkConfig;
use aws_sdk_s3::Client;
use aws_sdk_s3::error::SdkError;
use aws_sdk_s3::operation::put_object::PutObjectError;
use aws_sdk_s3::primitives::ByteStream;

/// One bucket.
#[derive(Debug, Clone)]
pub struct Bucket {
    client: Client,
    name: String,
}

#[derive(Debug, thiserror::Error)]
#[error("cannot write `{key}` to the bucket `{bucket}`; check that it is there, and the rights on it and on its key")]
pub struct BucketError {
    bucket: String,
    key: String,
    source: Box<SdkError<PutObjectError>>,
}

impl Bucket {
    /// Sends nothing yet.
    pub fn new(config: &SdkConfig, name: &str) -> Bucket {
        Bucket { client: Client::new(config), name: name.to_owned() }
    }

    /// Writes an object, in place of the one of that key if there is one.
    ///
    /// # Errors
    /// The last of the SDK's attempts'.
    pub async fn put(&self, key: &str, content_type: &str, bytes: Vec<u8>) -> Result<(), BucketError> {
        let request = self.client.put_object().bucket(&self.name).key(key).content_type(content_type);
        let sent = request.body(ByteStream::from(bytes)).send().await;
        sent.map(|_| ()).map_err(|source| BucketError {
            bucket: self.name.clone(),
            key: key.to_owned(),
            source: Box::new(source),
        })
    }
}
