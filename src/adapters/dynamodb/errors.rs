//! What the SDK's errors mean to a caller: wait, ask again, or give up.
//!
//! The SDK has an error type for each operation; what matters is in the service's code and in how far the request came. A
//! refusal for want of permission is kept apart from a refusal of the content: the first says nothing about the item, and an
//! item must never be put aside for it.

use std::error::Error;

use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};

use crate::engine::ports::{StoreError, StreamError};

/// An SDK error, by what can be done about it.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Failure {
    /// No answer, or an answer that says the service is in trouble.
    Unavailable(String),
    Throttled(String),
    Denied(String),
    /// The service's code and its words.
    Answered {
        code: String,
        message: String,
    },
}

/// Sorts an error of any operation of either service.
pub(super) fn failure<E>(error: &SdkError<E>) -> Failure
where
    E: ProvideErrorMetadata + Error + Send + Sync + 'static,
{
    let SdkError::ServiceError(service) = error else {
        if let SdkError::DispatchFailure(failure) = error
            && failure.is_io()
        {
            return Failure::Unavailable(format!("{SILENCE}: {}", root(error)));
        }
        let text = chain(error);
        // The SDK's words where no provider of its chain has credentials; a provider that fails is another matter.
        let no_credentials = text.contains("no providers in chain provided credentials");
        return if no_credentials { Failure::Denied(text) } else { Failure::Unavailable(text) };
    };
    let status = service.raw().status().as_u16();
    let code = service.err().code().unwrap_or_default();
    let message = service.err().message().unwrap_or_default();
    sort(status, code, message)
}

fn sort(status: u16, code: &str, message: &str) -> Failure {
    let said = if code.is_empty() { format!("HTTP status {status}") } else { format!("{code}: {message}") };
    match code {
        "ThrottlingException"
        | "Throttling"
        | "ProvisionedThroughputExceededException"
        | "RequestLimitExceeded"
        | "LimitExceededException"
        | "TransactionConflictException" => Failure::Throttled(said),
        "InternalServerError"
        | "InternalFailure"
        | "ServiceUnavailable"
        | "ServiceUnavailableException"
        | "TransactionInProgressException"
        | "ReplicatedWriteConflictException"
        | "RequestTimeoutException" => Failure::Unavailable(said),
        "AccessDeniedException"
        | "UnrecognizedClientException"
        | "InvalidSignatureException"
        | "SignatureDoesNotMatch"
        | "IncompleteSignatureException"
        | "MissingAuthenticationTokenException"
        | "MissingAuthenticationToken"
        | "ExpiredTokenException"
        | "ExpiredToken"
        | "InvalidClientTokenId"
        | "OptInRequired" => Failure::Denied(said),
        _ if status >= 500 || code.is_empty() => Failure::Unavailable(said),
        _ => Failure::Answered { code: code.to_owned(), message: message.to_owned() },
    }
}

/// For requests to `table`.
pub(super) fn store_error<E>(error: &SdkError<E>, table: &str) -> StoreError
where
    E: ProvideErrorMetadata + Error + Send + Sync + 'static,
{
    match failure(error) {
        Failure::Unavailable(text) => StoreError::Unavailable(text),
        Failure::Throttled(text) => StoreError::Throttled(text),
        Failure::Denied(text) => StoreError::Denied(text),
        Failure::Answered { code, message } => match code.as_str() {
            "ResourceNotFoundException" | "TableNotFoundException" => StoreError::NoTable(table.to_owned()),
            // Such a table is being made or removed: the same request may succeed in a moment.
            "ResourceInUseException" => StoreError::Unavailable(format!("table `{table}`: {message}")),
            _ => StoreError::Refused(format!("table `{table}`: {code}: {message}")),
        },
    }
}

/// For requests to a stream.
pub(super) fn stream_error<E>(error: &SdkError<E>) -> StreamError
where
    E: ProvideErrorMetadata + Error + Send + Sync + 'static,
{
    sort_stream(failure(error))
}

fn sort_stream(failure: Failure) -> StreamError {
    match failure {
        Failure::Unavailable(text) => StreamError::Unavailable(text),
        Failure::Throttled(text) => StreamError::Throttled(text),
        Failure::Denied(text) => StreamError::Refused(text),
        Failure::Answered { code, message } => match code.as_str() {
            "ExpiredIteratorException" => StreamError::ExpiredIterator,
            "TrimmedDataAccessException" => StreamError::Trimmed,
            // One code for both: only the words tell a shard that is gone from a stream or table that is gone.
            "ResourceNotFoundException" if message.contains("Shard") => StreamError::NoShard,
            "ResourceNotFoundException" => StreamError::NoStream,
            // DynamoDB Local says so of iterators that it made itself; a new one is accepted.
            "ValidationException" if message.contains("ShardIterator") || message.contains("shard iterator") => {
                StreamError::ExpiredIterator
            }
            _ => StreamError::Refused(format!("{code}: {message}")),
        },
    }
}

/// Most characters of an error and its causes: some of the SDK's print whole requests.
const CHAIN_LENGTH_MAX: usize = 400;

/// Begins what is said where no connection comes about.
pub(super) const SILENCE: &str = "nothing answers";

/// The first cause, in the system's words.
fn root(error: &(dyn Error + 'static)) -> String {
    let mut root = error;
    while let Some(cause) = root.source() {
        root = cause;
    }
    root.to_string().to_lowercase()
}

/// The same with the endpoint where nothing answers.
pub(super) fn at(endpoint: Option<&str>, error: StoreError) -> StoreError {
    match (endpoint, error) {
        (Some(endpoint), StoreError::Unavailable(text)) if text.starts_with(SILENCE) => {
            StoreError::Unavailable(text.replacen(SILENCE, &format!("{SILENCE} at {endpoint}"), 1))
        }
        (_, error) => error,
    }
}

/// An error and its causes in one line.
pub(super) fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let part = error.to_string();
        if !text.ends_with(&part) {
            text.push_str(": ");
            text.push_str(&part);
        }
        cause = error.source();
    }
    if text.chars().count() > CHAIN_LENGTH_MAX {
        text = text.chars().take(CHAIN_LENGTH_MAX).chain("...".chars()).collect();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn want_of_permission_is_not_a_refusal_of_the_content() {
        assert!(matches!(sort(400, "AccessDeniedException", "no"), Failure::Denied(_)));
        assert!(matches!(sort(400, "ValidationException", "no"), Failure::Answered { .. }));
    }

    #[test]
    fn trouble_of_the_service_is_unavailable_however_it_is_said() {
        for (status, code) in [(500, "InternalServerError"), (503, ""), (502, "SomethingNew"), (400, "")] {
            assert!(matches!(sort(status, code, ""), Failure::Unavailable(_)), "{status} {code}");
        }
        assert!(matches!(sort(400, "ProvisionedThroughputExceededException", ""), Failure::Throttled(_)));
    }

    #[test]
    fn streams_tell_a_lost_shard_from_a_lost_stream() {
        let said = |code: &str, message: &str| {
            sort_stream(Failure::Answered { code: code.to_owned(), message: message.to_owned() })
        };
        let not_found = "ResourceNotFoundException";
        assert_eq!(said(not_found, "Requested resource not found: Shard does not exist"), StreamError::NoShard);
        assert_eq!(said(not_found, "Requested resource not found: Stream: arn:x not found"), StreamError::NoStream);
        assert_eq!(said("ValidationException", "Invalid ShardId in ShardIterator"), StreamError::ExpiredIterator);
        assert_eq!(said("TrimmedDataAccessException", "x"), StreamError::Trimmed);
        assert!(matches!(said("ValidationException", "Invalid SequenceNumber"), StreamError::Refused(_)));
    }
}
