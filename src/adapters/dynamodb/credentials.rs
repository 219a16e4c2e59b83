//! The look for credentials before anything is sent: whoever has none hears of it at once, and what to do.

use aws_config::SdkConfig;
use aws_config::profile::ProfileFileCredentialsProvider;
use aws_sdk_dynamodb::config::{Credentials, ProvideCredentials as _};

use super::errors::chain;

/// Why there are no credentials.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CredentialsError {
    #[error("there are no credentials for AWS; set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")]
    None,
    /// The profile that was asked for. The SDK does not tell the two apart where there are no profiles at all.
    #[error(
        "there are no credentials for AWS: there is no profile `{0}`, or it holds none; set AWS_PROFILE to one that `aws configure list-profiles` names, or set \
         AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
    )]
    NoProfile(String),
    #[error(
        "the credentials for AWS cannot be used: the {0} is empty or holds a space, a line's end or another character that none has; set it anew"
    )]
    Odd(&'static str),
    /// Something gives credentials, but not now.
    #[error(
        "the credentials for AWS cannot be had: {0}; mend what gives them, or set AWS_PROFILE, or AWS_ACCESS_KEY_ID and \
         AWS_SECRET_ACCESS_KEY"
    )]
    Failing(String),
}

/// The profile that the environment asks for.
pub(super) fn asked_for() -> Option<String> {
    std::env::var("AWS_PROFILE").ok().filter(|name| !name.is_empty())
}

/// Asks for credentials and forgets them: the SDK asks again, and keeps them for as long as they are valid. `profile` is the one that
/// was asked for, else the environment's.
///
/// # Errors
/// [`CredentialsError`].
pub async fn find_credentials(config: &SdkConfig, profile: Option<String>) -> Result<(), CredentialsError> {
    let provider = config.credentials_provider().ok_or(CredentialsError::None)?;
    let error = match provider.provide_credentials().await {
        Ok(found) => return usable(&found),
        Err(error) => error,
    };
    if let Some(profile) = profile.or_else(asked_for) {
        // What the SDK asked after the profile has nothing to do with it.
        let provider = ProfileFileCredentialsProvider::builder().profile_name(&profile).build();
        if let Err(error) = provider.provide_credentials().await {
            return Err(of_profile(profile, &plain(&error)));
        }
    }
    let why = plain(&error);
    // The SDK's words where no provider of its chain has credentials; one that fails is another matter.
    match why.contains("no providers in chain provided credentials") {
        true => Err(CredentialsError::None),
        false => Err(CredentialsError::Failing(why)),
    }
}

/// The SDK panics over what cannot be in a header.
fn usable(found: &Credentials) -> Result<(), CredentialsError> {
    let parts = [
        ("access key id", Some(found.access_key_id())),
        ("secret access key", Some(found.secret_access_key())),
        ("session token", found.session_token()),
    ];
    let is_odd = |text: &str| text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_graphic());
    match parts.into_iter().find(|(_, text)| text.is_some_and(is_odd)) {
        Some((what, _)) => Err(CredentialsError::Odd(what)),
        None => Ok(()),
    }
}

/// The SDK's words where there is no such profile, and where no profile, or this one, gives credentials.
const NO_PROFILE: [&str; 2] = ["was not defined", "the credential provider was not enabled"];

fn of_profile(profile: String, why: &str) -> CredentialsError {
    match NO_PROFILE.iter().any(|words| why.contains(words)) {
        true => CredentialsError::NoProfile(profile),
        false => CredentialsError::Failing(format!("the profile `{profile}`: {why}")),
    }
}

/// The causes in one line, to which more can be added.
fn plain(error: &(dyn std::error::Error + 'static)) -> String {
    chain(error).trim_end_matches(['.', ' ']).to_owned()
}
