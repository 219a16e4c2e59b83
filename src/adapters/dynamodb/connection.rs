//! How to reach DynamoDB: endpoint, Region, credentials, timeouts.
//!
//! Everything follows the SDK's own conventions (environment, profile files, roles), so that whatever works for AWS's tools
//! works here; only an endpoint, a Region and a profile can be given besides. Timeouts are always set: a connection that hangs
//! would stop a worker without a word.

use std::sync::Arc;
use std::time::Duration;

use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_config::{AppName, BehaviorVersion, Region};
use aws_sdk_dynamodb::config::Credentials;

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
    #[error("no Region is set; set AWS_REGION, name one in the profile, or give an endpoint")]
    NoRegion,
}

/// Clients of one account and Region. Cheap to clone; clones share connections and counters.
#[derive(Debug, Clone)]
pub struct Connection {
    pub(super) tables: aws_sdk_dynamodb::Client,
    pub(super) streams: aws_sdk_dynamodbstreams::Client,
    pub(super) usage: Arc<Usage>,
}

impl Connection {
    /// Settles endpoint and Region; sends nothing yet. Credentials are looked for with the first request.
    pub async fn open(options: ConnectionOptions) -> Result<Connection, ConnectionError> {
        if let Some(endpoint) = &options.endpoint
            && !["http://", "https://"].iter().any(|scheme| endpoint.starts_with(scheme))
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
            .timeout_config(timeouts)
            .retry_config(RetryConfig::standard().with_max_attempts(ATTEMPTS_MAX));
        if let Some(profile) = options.profile {
            loader = loader.profile_name(profile);
        }
        if options.local {
            loader = loader.credentials_provider(Credentials::new("local", "local", None, None, "local"));
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
        if config.region().is_none() {
            if !has_endpoint && config.endpoint_url().is_none() {
                return Err(ConnectionError::NoRegion);
            }
            config = config.into_builder().region(Region::new(LOCAL_REGION)).build();
        }
        Ok(Connection {
            tables: aws_sdk_dynamodb::Client::new(&config),
            streams: aws_sdk_dynamodbstreams::Client::new(&config),
            usage: Arc::default(),
        })
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

    /// The SDK's client for tables, for what no port asks (index queries of reports and tests). Its requests are not counted.
    pub fn client(&self) -> &aws_sdk_dynamodb::Client {
        &self.tables
    }
}
