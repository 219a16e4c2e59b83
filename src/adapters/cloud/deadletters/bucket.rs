//! A bucket with an object for each batch that was given up.

use std::fmt::Display;

use aws_config::SdkConfig;
use aws_sdk_s3::Client;

use super::{CloudError, config, failed};

const LIST_RIGHTS: &str = "s3:ListBucket";
const READ_RIGHTS: &str = "s3:GetObject, and kms:Decrypt with the bucket's key";
const DELETE_RIGHTS: &str = "s3:DeleteObject";
/// An event has 6 MB at most, and as a text inside a record less than three times that.
const OBJECT_SIZE_MAX: u64 = 32 * 1024 * 1024;

/// Objects of one bucket whose keys begin alike.
#[derive(Debug, Clone)]
pub struct DeadLetterBucket {
    client: Client,
    name: String,
    prefix: String,
}

impl DeadLetterBucket {
    pub const SCHEME: &'static str = "s3://";

    /// `s3://BUCKET` or `s3://BUCKET/PREFIX`; sends nothing yet.
    ///
    /// # Errors
    /// No bucket is named, or no Region is set.
    pub async fn open<E: Display>(
        address: &str,
        look: impl AsyncFnOnce(&SdkConfig) -> Result<(), E>,
    ) -> Result<DeadLetterBucket, CloudError> {
        let (name, prefix) = parse(address).ok_or_else(|| CloudError::Address {
            address: address.to_owned(),
            fault: "names no bucket; write s3://BUCKET or s3://BUCKET/PREFIX",
        })?;
        Ok(DeadLetterBucket {
            client: Client::new(&config(look).await?),
            name: name.to_owned(),
            prefix: prefix.to_owned(),
        })
    }

    /// The keys of all objects, in their order: those of one shard as they were given up.
    ///
    /// # Errors
    /// [`CloudError`].
    pub async fn keys(&self) -> Result<Vec<String>, CloudError> {
        let mut pages = self.client.list_objects_v2().bucket(&self.name).prefix(&self.prefix).into_paginator().send();
        let mut keys = Vec::new();
        while let Some(page) = pages.next().await {
            let page = page.map_err(|error| failed(&error, format!("bucket `{}`", self.name), LIST_RIGHTS))?;
            let found = page.contents.unwrap_or_default().into_iter().filter_map(|object| object.key);
            // What consoles make where one asks for a folder.
            keys.extend(found.filter(|key| !key.ends_with('/')));
        }
        keys.sort_unstable();
        Ok(keys)
    }

    /// The object's address.
    pub fn shown(&self, key: &str) -> String {
        format!("{}{}/{key}", DeadLetterBucket::SCHEME, self.name)
    }

    /// # Errors
    /// [`CloudError`], also where the object is too large to be an invocation record.
    pub async fn read(&self, key: &str) -> Result<Vec<u8>, CloudError> {
        let what = || format!("object `{}`", self.shown(key));
        let request = self.client.get_object().bucket(&self.name).key(key);
        let object = request.send().await.map_err(|error| failed(&error, what(), READ_RIGHTS))?;
        let size = object.content_length.and_then(|size| u64::try_from(size).ok()).unwrap_or_default();
        if size > OBJECT_SIZE_MAX {
            return Err(CloudError::TooLarge { what: what(), size, max: OBJECT_SIZE_MAX });
        }
        let body = object.body.collect().await;
        let body = body.map_err(|error| CloudError::Failed { what: what(), reason: super::chain(&error) })?;
        Ok(body.to_vec())
    }

    /// Deletes the object; in a bucket with versions it stays there as one.
    ///
    /// # Errors
    /// [`CloudError`].
    pub async fn delete(&self, key: &str) -> Result<(), CloudError> {
        let request = self.client.delete_object().bucket(&self.name).key(key);
        let deleted = request.send().await;
        deleted.map(|_| ()).map_err(|error| failed(&error, format!("object `{}`", self.shown(key)), DELETE_RIGHTS))
    }
}

fn parse(address: &str) -> Option<(&str, &str)> {
    let rest = address.strip_prefix(DeadLetterBucket::SCHEME)?;
    let (name, prefix) = rest.split_once('/').unwrap_or((rest, ""));
    (!name.is_empty()).then_some((name, prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_bucket_and_perhaps_a_prefix() {
        assert_eq!(parse("s3://b"), Some(("b", "")));
        assert_eq!(parse("s3://b/"), Some(("b", "")));
        assert_eq!(parse("s3://b/aws/lambda/"), Some(("b", "aws/lambda/")));
        for address in ["s3://", "s3:///x", "b", "https://b"] {
            assert_eq!(parse(address), None, "{address}");
        }
    }
}
