//! Where batches are that AWS Lambda gave up: a bucket with an object for each, or a queue with a message for each.
//!
//! The contract: nothing is taken for gone that could not be read, and nothing is deleted but by name. Listing and receiving end:
//! a queue gives each message once, however often it delivers it.

mod bucket;
mod queue;

use std::error::Error;
use std::fmt::Display;
use std::time::Duration;

use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_config::{AppName, BehaviorVersion, SdkConfig};
use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};

pub use bucket::DeadLetterBucket;
pub use queue::{DeadLetterQueue, Message};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// One attempt of one request: an object of a few MB on a slow line.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(60);
const ATTEMPTS_MAX: u32 = 4;
/// Most characters of an error and its causes: some of the SDK's print whole requests.
const CHAIN_LENGTH_MAX: usize = 400;

/// Why a service did not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CloudError {
    #[error("`{address}` {fault}")]
    Address { address: String, fault: &'static str },
    #[error("no Region is set; set AWS_REGION or name one in the profile")]
    NoRegion,
    /// What the look for credentials says.
    #[error("{0}")]
    Credentials(String),
    #[error("there is no {0}; check its name, the Region and the account")]
    NotThere(String),
    #[error("{what}: access is denied: {reason}; check the credentials and their permissions ({rights})")]
    Denied { what: String, reason: String, rights: &'static str },
    #[error("{what}: {reason}")]
    Failed { what: String, reason: String },
    #[error("{what} has {size} bytes, no invocation record has more than {max}")]
    TooLarge { what: String, size: u64, max: u64 },
}

impl CloudError {
    /// True where the fault is in how the thing was named or in what is allowed, so that another attempt fares alike.
    pub fn is_usage(&self) -> bool {
        matches!(
            self,
            CloudError::Address { .. }
                | CloudError::NoRegion
                | CloudError::Credentials(_)
                | CloudError::NotThere(_)
                | CloudError::Denied { .. }
        )
    }
}

/// `look` is how the program looks for credentials: without any nothing is asked.
async fn config<E: Display>(look: impl AsyncFnOnce(&SdkConfig) -> Result<(), E>) -> Result<SdkConfig, CloudError> {
    let timeouts =
        TimeoutConfig::builder().connect_timeout(CONNECT_TIMEOUT).operation_attempt_timeout(ATTEMPT_TIMEOUT).build();
    let name = AppName::new(env!("CARGO_PKG_NAME")).expect("a package's name is made of allowed characters");
    let config = aws_config::defaults(BehaviorVersion::latest())
        .app_name(name)
        .timeout_config(timeouts)
        .retry_config(RetryConfig::standard().with_max_attempts(ATTEMPTS_MAX))
        .load()
        .await;
    if config.region().is_none() {
        return Err(CloudError::NoRegion);
    }
    look(&config).await.map_err(|error| CloudError::Credentials(error.to_string()))?;
    Ok(config)
}

/// Sorts an error of any operation on `what`, for which one needs these rights.
fn failed<E>(error: &SdkError<E>, what: String, rights: &'static str) -> CloudError
where
    E: ProvideErrorMetadata + Error + Send + Sync + 'static,
{
    let SdkError::ServiceError(service) = error else {
        return CloudError::Failed { what, reason: chain(error) };
    };
    let code = service.err().code().unwrap_or_default();
    let message = service.err().message().unwrap_or_default();
    sort(service.raw().status().as_u16(), code, message, what, rights)
}

fn sort(status: u16, code: &str, message: &str, what: String, rights: &'static str) -> CloudError {
    let reason = match (code, message) {
        ("", _) => format!("HTTP status {status}"),
        (code, "") => code.to_owned(),
        (code, message) => format!("{code}: {message}"),
    };
    match code {
        "NoSuchBucket"
        | "NoSuchKey"
        | "QueueDoesNotExist"
        | "AWS.SimpleQueueService.NonExistentQueue"
        | "AWS.SimpleQueueService.QueueDeletedRecently" => CloudError::NotThere(what),
        "AccessDenied"
        | "AccessDeniedException"
        | "KMS.AccessDeniedException"
        | "KmsAccessDenied"
        | "AllAccessDisabled"
        | "InvalidAccessKeyId"
        | "InvalidClientTokenId"
        | "SignatureDoesNotMatch"
        | "UnrecognizedClientException"
        | "ExpiredToken"
        | "ExpiredTokenException" => CloudError::Denied { what, reason, rights },
        _ if status == 403 => CloudError::Denied { what, reason, rights },
        _ => CloudError::Failed { what, reason },
    }
}

/// An error and its causes in one line.
fn chain(error: &(dyn Error + 'static)) -> String {
    let (mut text, mut cause) = (error.to_string(), error.source());
    while let Some(error) = cause {
        let part = error.to_string();
        if !text.ends_with(&part) {
            text = format!("{text}: {part}");
        }
        cause = error.source();
    }
    text.chars().take(CHAIN_LENGTH_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_say_what_to_do() {
        let of = |status, code| sort(status, code, "words", "bucket `b`".to_owned(), "s3:GetObject");
        assert_eq!(
            of(404, "NoSuchBucket").to_string(),
            "there is no bucket `b`; check its name, the Region and the account"
        );
        for (status, code) in [(403, "AccessDenied"), (403, ""), (400, "KMS.AccessDeniedException")] {
            let error = of(status, code);
            assert!(error.is_usage() && error.to_string().contains("s3:GetObject"), "{error}");
        }
        let busy = of(503, "SlowDown");
        assert!(!busy.is_usage());
        assert_eq!(busy.to_string(), "bucket `b`: SlowDown: words");
        assert_eq!(of(500, "").to_string(), "bucket `b`: HTTP status 500");
    }
}
