//! Health and metrics of a worker over HTTP: `/healthz`, `/readyz`, `/metrics`.
//!
//! The problem: whoever runs a worker must see from outside whether it lives, does its work and keeps up, without reading its log.
//! The contract: [`Telemetry`] is told what the worker does (it is an [`Observer`]) and answers at any moment, also while the
//! worker is stuck. 200 means yes; 503 means no, and the body says why in one line. `/metrics` is Prometheus' text format, its names
//! those of [`METRICS`](crate::engine::telemetry::METRICS). Nothing served names an item; there is no login, so listen on an address
//! that only your own network reaches. What stands in the tables is counted when it is asked for, at most every
//! [`CENSUS_AGE_MAX`]; if the database does not answer in time, everything else is served all the same.

mod metrics;

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use chrono::{DateTime, TimeDelta, Utc};
use tokio::net::TcpListener;

use crate::engine::batch::BatchReport;
use crate::engine::ports::{Clock, Store};
use crate::engine::telemetry::CENSUS_AGE_MAX;
use crate::engine::telemetry::census::census;
use crate::engine::telemetry::health::Health;
use crate::engine::telemetry::readings::Consumption;
use crate::engine::worker::{Observer, Progress};
use crate::model::spec::Model;
pub use metrics::Metrics;

/// How long a scrape waits for the database; scrapers wait 10 s by default.
const CENSUS_TIMEOUT: Duration = Duration::from_secs(3);
/// How long answers under way may take when the server is to end.
const GRACE: Duration = Duration::from_secs(2);

/// Why there is no server.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}; give another address or port (0: any that is free), or end what listens there")]
pub struct ListenError {
    pub address: SocketAddr,
    #[source]
    source: io::Error,
}

/// An address that is taken and not served yet.
#[derive(Debug)]
pub struct Listening {
    listener: TcpListener,
    /// With the port that was given by the system where 0 was asked for.
    pub address: SocketAddr,
}

/// Takes the address, so that a fault shows before the work begins.
///
/// # Errors
/// [`ListenError`]: for example the port is in use.
pub async fn listen(address: SocketAddr) -> Result<Listening, ListenError> {
    let failed = |source| ListenError { address, source };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    Ok(Listening { listener, address })
}

/// What is known of one worker, for all who ask.
pub struct Telemetry<C> {
    clock: C,
    health: Mutex<Health>,
    metrics: Metrics,
}

impl<C: Clock> Telemetry<C> {
    /// # Errors
    /// As [`Metrics::new`].
    pub fn new(clock: C) -> Result<Telemetry<C>, prometheus::Error> {
        let health = Mutex::new(Health::new(clock.now()));
        Ok(Telemetry { clock, health, metrics: Metrics::new()? })
    }

    fn health(&self) -> MutexGuard<'_, Health> {
        self.health.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<C: Clock> Observer<BatchReport> for Telemetry<C> {
    fn progress(&self, progress: Progress<'_, BatchReport>) {
        self.health().on(&progress, self.clock.now());
        self.metrics.on(&progress);
    }
}

/// What `/metrics` asks besides the worker.
struct Sources<C, S, U> {
    telemetry: Arc<Telemetry<C>>,
    store: S,
    model: Arc<Model>,
    consumption: U,
    /// When the last census was begun; held during one, so that there is one at a time.
    counted_at: tokio::sync::Mutex<Option<DateTime<Utc>>>,
}

/// Serves until `stop` completes, then finishes the answers under way.
///
/// # Errors
/// The listener fails for good.
pub async fn serve<C, S, U>(
    listening: Listening,
    telemetry: Arc<Telemetry<C>>,
    store: S,
    model: Arc<Model>,
    consumption: U,
    stop: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()>
where
    C: Clock + 'static,
    S: Store + 'static,
    U: Fn() -> Consumption + Send + Sync + 'static,
{
    let counted_at = tokio::sync::Mutex::new(None);
    let sources = Arc::new(Sources { telemetry: Arc::clone(&telemetry), store, model, consumption, counted_at });
    let (live, ready) = (Arc::clone(&telemetry), telemetry);
    let router = Router::new()
        .route("/healthz", get(move || async move { answer(live.health().live(live.clock.now())) }))
        .route("/readyz", get(move || async move { answer(ready.health().ready(ready.clock.now())) }))
        .route("/metrics", get(move || async move { sources.metrics().await }));
    let (stopping, stopped) = tokio::sync::oneshot::channel::<()>();
    let stop = async move {
        stop.await;
        let _ = stopping.send(());
    };
    let server = axum::serve(listening.listener, router).with_graceful_shutdown(stop);
    // A client that never finishes its request must not keep the worker from ending.
    let give_up = async {
        let _ = stopped.await;
        tokio::time::sleep(GRACE).await;
    };
    tokio::select! {
        ended = server => ended,
        () = give_up => Ok(()),
    }
}

fn answer(judgement: Result<(), String>) -> Response {
    match judgement {
        Ok(()) => (StatusCode::OK, "ok\n").into_response(),
        Err(reason) => (StatusCode::SERVICE_UNAVAILABLE, format!("{reason}\n")).into_response(),
    }
}

impl<C: Clock, S: Store, U: Fn() -> Consumption> Sources<C, S, U> {
    async fn metrics(&self) -> Response {
        self.count().await;
        let Telemetry { clock, metrics, .. } = &*self.telemetry;
        if let Some(lag) = self.telemetry.health().lag(clock.now()) {
            metrics.lag(lag.as_secs_f64());
        }
        metrics.consumption(&(self.consumption)());
        match metrics.text() {
            Ok(text) => ([(CONTENT_TYPE, metrics::MEDIA_TYPE)], text).into_response(),
            Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
        }
    }

    /// Counts what stands in the tables, unless that was done just now.
    async fn count(&self) {
        let mut counted_at = self.counted_at.lock().await;
        let now = self.telemetry.clock.now();
        let fresh = |at: DateTime<Utc>| TimeDelta::from_std(CENSUS_AGE_MAX).is_ok_and(|age| (now - at).abs() < age);
        if counted_at.is_some_and(fresh) {
            return;
        }
        *counted_at = Some(now);
        let metrics = &self.telemetry.metrics;
        match tokio::time::timeout(CENSUS_TIMEOUT, census(&self.store, &self.model)).await {
            Ok(Ok(census)) => metrics.census(&census),
            Ok(Err(_)) | Err(_) => metrics.census_failed(),
        }
    }
}
