//! HTTP for the SDK's clients: what the SDK would take itself, but the machine's root certificates are read only when something
//! is asked over TLS.
//!
//! The SDK reads and parses all of them before its first request, whatever that request is. Beside a database on this machine or a plain
//! endpoint inside a network that is a third of a function's cold start, for nothing.

use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use aws_sdk_dynamodb::config::SharedAsyncSleep;
use aws_smithy_http_client::proxy::ProxyConfig;
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;
use aws_smithy_http_client::tls::{Provider, TlsContext, TrustStore};
use aws_smithy_http_client::{Connector, ConnectorBuilder};
use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpClient, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;

/// A client that keeps its connections, as the SDK's own does.
pub(super) fn client() -> SharedHttpClient {
    SharedHttpClient::new(Transport::default())
}

/// Time to connect and to read, by which connectors differ.
type Timeouts = (Option<Duration>, Option<Duration>);

#[derive(Debug, Default)]
struct Transport {
    connectors: Mutex<Vec<(Timeouts, SharedHttpConnector)>>,
}

impl HttpClient for Transport {
    fn http_connector(&self, settings: &HttpConnectorSettings, components: &RuntimeComponents) -> SharedHttpConnector {
        let timeouts = (settings.connect_timeout(), settings.read_timeout());
        let mut connectors = self.connectors.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, connector)) = connectors.iter().find(|(of, _)| *of == timeouts) {
            return connector.clone();
        }
        let connector = SharedHttpConnector::new(ByScheme {
            settings: settings.clone(),
            sleep: components.sleep_impl(),
            plain: OnceLock::new(),
            secure: OnceLock::new(),
        });
        connectors.push((timeouts, connector.clone()));
        connector
    }
}

/// One connector for requests that never meet TLS, which trusts nobody, and one for the rest, which trusts whom the machine trusts.
#[derive(Debug)]
struct ByScheme {
    settings: HttpConnectorSettings,
    sleep: Option<SharedAsyncSleep>,
    plain: OnceLock<Connector>,
    secure: OnceLock<Connector>,
}

impl ByScheme {
    fn trusting(&self, roots: TrustStore) -> Connector {
        let mut builder = ConnectorBuilder::default().tls_provider(Provider::Rustls(CryptoMode::AwsLc));
        builder.set_connector_settings(Some(self.settings.clone()));
        builder.set_sleep_impl(self.sleep.clone());
        builder.set_proxy_config(Some(ProxyConfig::from_env()));
        // Only certificates that cannot be read are refused, and none is given.
        builder.set_tls_context(TlsContext::builder().with_trust_store(roots).build().unwrap_or_default());
        builder.build()
    }
}

impl HttpConnector for ByScheme {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let connector = if is_plain(request.uri(), proxy_of_http().as_deref()) {
            self.plain.get_or_init(|| self.trusting(TrustStore::empty()))
        } else {
            self.secure.get_or_init(|| self.trusting(TrustStore::default()))
        };
        connector.call(request)
    }
}

/// True where neither the endpoint nor the proxy before it speaks TLS.
fn is_plain(uri: &str, proxy: Option<&str>) -> bool {
    let speaks_tls = |url: &str| url.get(..6).is_some_and(|scheme| scheme.eq_ignore_ascii_case("https:"));
    !speaks_tls(uri) && !proxy.is_some_and(speaks_tls)
}

/// The proxy that the environment names for requests of http.
fn proxy_of_http() -> Option<String> {
    ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"].into_iter().find_map(|name| std::env::var(name).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_never_meets_tls_is_plain() {
        let cases = [
            ("http://127.0.0.1:8000/", None, true),
            ("http://127.0.0.1:8000/", Some("http://proxy:3128"), true),
            ("http://127.0.0.1:8000/", Some("https://proxy:3128"), false),
            ("https://dynamodb.eu-central-1.amazonaws.com/", None, false),
            ("HTTPS://dynamodb.eu-central-1.amazonaws.com/", Some("http://proxy:3128"), false),
        ];
        for (uri, proxy, expected) in cases {
            assert_eq!(is_plain(uri, proxy), expected, "{uri} by {proxy:?}");
        }
    }
}
