//! How to reach DynamoDB: endpoint, Region, credentials, timeouts.
//!
//! Everything follows the SDK's own conventions (environment, profile files, roles), so that whatever works for AWS's tools
//! works here; only an endpoint, a Region and a profile can be given besides. Timeouts are always set: a connection that hangs
//! would stop a worker without a word.
//!
//! An endpoint on this machine is a local database, which accepts anything: what the environment and the profile do not say is
//! made up, and the cloud's metadata service, which a laptop waits for in vain, is not asked.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use aws_config::environment::{EnvironmentVariableCredentialsProvider, EnvironmentVariableRegionProvider};
use aws_config::meta::credentials::CredentialsProviderChain;
use aws_config::meta::region::RegionProviderChain;
use aws_config::profile::{ProfileFileCredentialsProvider, ProfileFileRegionProvider};
use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_config::{AppName, BehaviorVersion, Region, SdkConfig};
use aws_sdk_dynamodb::config::Credentials;

use super::credentials::{self, CredentialsError, find_credentials};
use super::transport;
use super::usage::Usage;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// One attempt of one request. A transaction of 100 large items and a full page of a scan take seconds at worst.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(20);
/// One request with all of the SDK's attempts. Far below the 10 minutes for which a transaction's token is remembered, so a
/// transaction that the SDK repeats after a lost answer is answered, not done again.
const OPERATION_TIMEOUT: Duration = Duration::from_secs(60);
const ATTEMPTS_MAX: u32 = 3;
/// The Region that is signed for where an endpoint is given and no Region is: local databases accept any.
const LOCAL_REGION: &str = "us-east-1";

/// What may be said besides the SDK's own settings; all of it is optional.
#[derive(Debug, Clone, Default)]
pub struct ConnectionOptions {
    /// For example `http://127.0.0.1:8000`. Default: `AWS_ENDPOINT_URL` or the profile's, else AWS.
    pub endpoint: Option<String>,
    /// Default: `AWS_REGION`, the profile, or the machine's.
    pub region: Option<String>,
    /// Default: `AWS_PROFILE`, or `default`.
    pub profile: Option<String>,
    /// Signs with made-up credentials and looks for no others: for a database on this machine.
    pub local: bool,
}

/// Why no connection can be settled; nothing has been sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConnectionError {
    #[error("endpoint `{0}` is not a URL of http or https; write for example `http://127.0.0.1:8000`")]
    Endpoint(String),
    #[error("no Region is set{}; set AWS_REGION, name one in the profile, or give an endpoint", of_profile(.profile))]
    NoRegion { profile: Option<String> },
    #[error("`{0}` is no Region; set AWS_REGION to one, for example `eu-central-1`")]
    Region(String),
    #[error("{0}, or reach a local database by --endpoint")]
    Credentials(CredentialsError),
}

/// The profile that was asked for and did not give what is missing.
fn of_profile(profile: &Option<String>) -> String {
    let named = |name: &String| format!(": the profile `{name}` says nothing of it, or there is no such profile");
    profile.as_ref().map(named).unwrap_or_default()
}

/// Clients of one account and Region. Cheap to clone; clones share connections and counters.
#[derive(Debug, Clone)]
pub struct Connection {
    pub(super) tables: aws_sdk_dynamodb::Client,
    pub(super) usage: Arc<Usage>,
    config: SdkConfig,
}

impl Connection {
    /// Settles endpoint, Region and credentials; sends nothing to DynamoDB yet. Who has no credentials hears of it here, for later a
    /// worker could not tell that from a provider that is in trouble for a moment. The cloud's metadata service, which is asked last,
    /// gets a second to answer.
    pub async fn open(options: ConnectionOptions) -> Result<Connection, ConnectionError> {
        if let Some(endpoint) = &options.endpoint
            && host(endpoint).is_none()
        {
            return Err(ConnectionError::Endpoint(endpoint.clone()));
        }
        let timeouts = TimeoutConfig::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .operation_attempt_timeout(ATTEMPT_TIMEOUT)
            .operation_timeout(OPERATION_TIMEOUT)
            .build();
        let name = AppName::new(env!("CARGO_PKG_NAME")).expect("a package's name is made of allowed characters");
        let mut loader = aws_config::defaults(BehaviorVersion::latest())
            .app_name(name)
            .http_client(transport::client())
            .timeout_config(timeouts)
            .retry_config(RetryConfig::standard().with_max_attempts(ATTEMPTS_MAX));
        if options.local {
            loader = loader.credentials_provider(local_credentials());
        } else if options.endpoint.as_deref().and_then(host).is_some_and(is_this_machine) {
            let profile = options.profile.as_deref();
            loader = loader.credentials_provider(said_credentials(profile)).region(said_region(profile));
        }
        let asked_for = options.profile.clone().or_else(credentials::asked_for);
        if let Some(profile) = options.profile {
            loader = loader.profile_name(profile);
        }
        let region = options.region.or_else(|| options.local.then(|| LOCAL_REGION.to_owned()));
        if let Some(region) = region {
            loader = loader.region(Region::new(region));
        }
        let has_endpoint = options.endpoint.is_some();
        if let Some(endpoint) = options.endpoint {
            loader = loader.endpoint_url(endpoint);
        }
        let mut config = loader.load().await;
        let of_environment = ["AWS_ENDPOINT_URL_DYNAMODB", "AWS_ENDPOINT_URL"].map(|name| std::env::var(name).ok());
        let mut endpoints =
            of_environment.into_iter().flatten().filter(|endpoint| !has_endpoint && !endpoint.is_empty());
        if let Some(endpoint) = endpoints.find(|endpoint| host(endpoint).is_none()) {
            return Err(ConnectionError::Endpoint(endpoint));
        }
        if let Some(region) = config.region().filter(|region| !is_region(region.as_ref())) {
            return Err(ConnectionError::Region(region.to_string()));
        }
        if config.region().is_none() {
            if !has_endpoint && config.endpoint_url().is_none() {
                return Err(ConnectionError::NoRegion { profile: asked_for });
            }
            config = config.into_builder().region(Region::new(LOCAL_REGION)).build();
        }
        find_credentials(&config, asked_for).await.map_err(ConnectionError::Credentials)?;
        Ok(Connection { tables: aws_sdk_dynamodb::Client::new(&config), usage: Arc::default(), config })
    }

    /// A database on this machine that accepts any credentials: Dynoxide in process, DynamoDB Local.
    pub async fn local(endpoint: &str) -> Result<Connection, ConnectionError> {
        let options = ConnectionOptions { endpoint: Some(endpoint.to_owned()), local: true, ..Default::default() };
        Connection::open(options).await
    }

    /// The counters of everything asked over this connection and its clones.
    pub fn usage(&self) -> &Usage {
        &self.usage
    }

    /// Endpoint, Region, credentials and timeouts, for clients of other services.
    pub fn config(&self) -> &SdkConfig {
        &self.config
    }

    /// The SDK's client for tables, for what no port asks (index queries of reports and tests). Its requests are not counted.
    pub fn client(&self) -> &aws_sdk_dynamodb::Client {
        &self.tables
    }
}

/// The host of an URL of http or https, without its port.
fn host(endpoint: &str) -> Option<&str> {
    let rest = ["http://", "https://"].iter().find_map(|scheme| endpoint.strip_prefix(scheme))?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let host = match authority.strip_prefix('[') {
        Some(address) => address.split(']').next()?,
        None => authority.split(':').next()?,
    };
    Some(host).filter(|host| !host.is_empty())
}

/// It becomes a part of host names.
fn is_region(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

fn is_this_machine(host: &str) -> bool {
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn local_credentials() -> Credentials {
    Credentials::new("local", "local", None, None, "local")
}

/// Those of the environment or the profile, else made up. DynamoDB Local keeps separate tables for each access key and Region, so
/// what is said counts there as well.
fn said_credentials(profile: Option<&str>) -> CredentialsProviderChain {
    let mut of_profile = ProfileFileCredentialsProvider::builder();
    if let Some(name) = profile {
        of_profile = of_profile.profile_name(name);
    }
    CredentialsProviderChain::first_try("environment", EnvironmentVariableCredentialsProvider::new())
        .or_else("profile", of_profile.build())
        .or_else("local", local_credentials())
}

fn said_region(profile: Option<&str>) -> RegionProviderChain {
    let mut of_profile = ProfileFileRegionProvider::builder();
    if let Some(name) = profile {
        of_profile = of_profile.profile_name(name);
    }
    RegionProviderChain::first_try(EnvironmentVariableRegionProvider::new())
        .or_else(of_profile.build())
        .or_else(Region::new(LOCAL_REGION))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_told_from_endpoints() {
        let machine = ["http://127.0.0.1:8000", "http://localhost", "https://[::1]:8000/x", "http://127.9.9.9/"];
        assert!(machine.iter().all(|endpoint| host(endpoint).is_some_and(is_this_machine)));
        let elsewhere = ["http://dynamodb:8000", "https://dynamodb.eu-central-1.amazonaws.com", "http://10.0.0.1:80"];
        assert!(elsewhere.iter().all(|endpoint| host(endpoint).is_some_and(|host| !is_this_machine(host))));
        assert!(
            ["127.0.0.1:8000", "ftp://x", "http://", "http://:8000", "https:///x"].iter().all(|no| host(no).is_none())
        );
    }
}
