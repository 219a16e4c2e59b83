//! A DynamoDB inside this process, for a first try, laptops and tests.
//!
//! Nobody should need an account or a second program to see what Tablekeeper does. Dynoxide keeps tables in SQLite and speaks
//! DynamoDB's protocol; here it listens on a free port of the loopback interface, so that everything else goes the same way
//! through AWS's SDK as in production. It runs on threads of its own: SQLite's calls block.
//!
//! In memory all is gone at the end. In a data directory tables, items and streams stay; a commit survives the sudden end of
//! the process. One process at a time: a second one is refused, because the writes of both would mix in one stream.

use std::fs::{File, TryLockError};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use dynoxide::Database;
use tokio::sync::oneshot;
use tracing::warn;

const DATA_FILE: &str = "tables.sqlite";
const LOCK_FILE: &str = "lock";
/// There while the first tables are made. Dynoxide makes a table in several steps: one that was ended in between has no indexes,
/// and takes no items.
const MAKING_FILE: &str = "making";
/// How often expired items are removed; DynamoDB itself promises days.
const TTL_SWEEP_PAUSE: Duration = Duration::from_secs(60);
/// How long a shutdown waits for requests that are under way.
const SHUTDOWN_WAIT: Duration = Duration::from_secs(5);
const SERVER_THREADS: usize = 2;

#[derive(Debug, thiserror::Error)]
pub enum EmbeddedError {
    #[error("data directory {} is in use by another process; end it, or name another directory", .0.display())]
    InUse(PathBuf),
    #[error("data directory {} cannot be used: {reason}", .path.display())]
    Directory { path: PathBuf, reason: std::io::Error },
    #[error("the tables in {place} cannot be opened: {reason}")]
    Open { place: String, reason: String },
    #[error("the embedded database cannot be started: {0}")]
    Start(std::io::Error),
}

/// The running database. Dropping it stops it as [`Embedded::shutdown`] does, without waiting.
#[derive(Debug)]
pub struct Embedded {
    endpoint: String,
    stop: Option<oneshot::Sender<()>>,
    server: Option<JoinHandle<()>>,
}

impl Embedded {
    /// Starts in memory, or with the tables in `data_dir`, which is made if need be. Returns when requests are answered.
    pub fn start(data_dir: Option<&Path>) -> Result<Embedded, EmbeddedError> {
        let lock = data_dir.map(lock_directory).transpose()?;
        data_dir.map_or(Ok(()), forget_half_made)?;
        let database = match data_dir {
            None => Database::memory(),
            Some(path) => Database::new(&path.join(DATA_FILE).to_string_lossy()),
        };
        let database = database.map_err(|error| EmbeddedError::Open {
            place: data_dir.map_or("memory".to_owned(), |path| path.display().to_string()),
            reason: error.to_string(),
        })?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(EmbeddedError::Start)?;
        listener.set_nonblocking(true).map_err(EmbeddedError::Start)?;
        let address = listener.local_addr().map_err(EmbeddedError::Start)?;
        let (stop, stopped) = oneshot::channel();
        let (ready, is_ready) = mpsc::channel();
        let server = std::thread::Builder::new()
            .name("embedded-dynamodb".to_owned())
            .spawn(move || {
                serve(listener, database, stopped, &ready);
                // Only now may another process open the directory.
                drop(lock);
            })
            .map_err(EmbeddedError::Start)?;
        let embedded = Embedded { endpoint: endpoint(address), stop: Some(stop), server: Some(server) };
        match is_ready.recv() {
            Ok(Ok(())) => Ok(embedded),
            Ok(Err(error)) => Err(EmbeddedError::Start(error)),
            Err(_) => Err(EmbeddedError::Start(std::io::Error::other("its thread ended at once"))),
        }
    }

    /// To be called before a start that is followed by making tables: should the process end before [`Embedded::made`], the next
    /// start begins with an empty database. Does nothing where there is a database.
    ///
    /// # Errors
    /// The directory cannot be written.
    pub fn making(data_dir: &Path) -> Result<(), EmbeddedError> {
        let failed = |reason| EmbeddedError::Directory { path: data_dir.to_owned(), reason };
        if Embedded::is_in(data_dir) {
            return Ok(());
        }
        std::fs::create_dir_all(data_dir).and_then(|()| std::fs::write(data_dir.join(MAKING_FILE), "")).map_err(failed)
    }

    /// The tables are made; from here on everything is kept.
    ///
    /// # Errors
    /// The directory cannot be written.
    pub fn made(data_dir: &Path) -> Result<(), EmbeddedError> {
        let failed = |reason| EmbeddedError::Directory { path: data_dir.to_owned(), reason };
        remove(&data_dir.join(MAKING_FILE)).map_err(failed)
    }

    /// True if the directory holds a database already.
    pub fn is_in(data_dir: &Path) -> bool {
        data_dir.join(DATA_FILE).is_file()
    }

    /// For example `http://127.0.0.1:40123`; any Region and credentials do.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// Stops taking requests, lets those under way finish (for at most five seconds) and closes the files.
    pub async fn shutdown(mut self) {
        self.stop.take();
        if let Some(server) = self.server.take() {
            let ended = tokio::task::spawn_blocking(move || server.join()).await;
            if !matches!(ended, Ok(Ok(()))) {
                warn!("the embedded database did not end in order");
            }
        }
    }
}

fn endpoint(address: SocketAddr) -> String {
    format!("http://{address}")
}

/// Deletes a database that somebody began to make and did not come to fill.
fn forget_half_made(path: &Path) -> Result<(), EmbeddedError> {
    if !path.join(MAKING_FILE).exists() {
        return Ok(());
    }
    let files = ["", "-wal", "-shm"].map(|end| path.join(format!("{DATA_FILE}{end}")));
    let failed = |reason| EmbeddedError::Directory { path: path.to_owned(), reason };
    files.iter().try_for_each(|file| remove(file)).map_err(failed)
}

/// Deletes a file that may be gone.
fn remove(file: &Path) -> std::io::Result<()> {
    match std::fs::remove_file(file) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// The lock is the operating system's: it goes with the process, however that ends.
fn lock_directory(path: &Path) -> Result<File, EmbeddedError> {
    let failed = |reason| EmbeddedError::Directory { path: path.to_owned(), reason };
    std::fs::create_dir_all(path).map_err(failed)?;
    let options = File::options().create(true).truncate(false).write(true).open(path.join(LOCK_FILE));
    let file = options.map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(EmbeddedError::InUse(path.to_owned())),
        Err(TryLockError::Error(reason)) => Err(failed(reason)),
    }
}

/// Runs until `stopped` resolves, which it does also when its sender is dropped.
fn serve(
    listener: TcpListener,
    database: Database,
    stopped: oneshot::Receiver<()>,
    ready: &mpsc::Sender<Result<(), std::io::Error>>,
) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(SERVER_THREADS).enable_all().build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return ready.send(Err(error)).unwrap_or_default(),
    };
    runtime.block_on(async move {
        let listener = match tokio::net::TcpListener::from_std(listener) {
            Ok(listener) => listener,
            Err(error) => return ready.send(Err(error)).unwrap_or_default(),
        };
        let sweeper = tokio::spawn(sweep_expired(database.clone()));
        let (closing, is_closing) = oneshot::channel();
        let shutdown = async move {
            stopped.await.unwrap_or_default();
            closing.send(()).unwrap_or_default();
        };
        let server = tokio::spawn(dynoxide::server::serve_with_shutdown(listener, database, shutdown));
        ready.send(Ok(())).unwrap_or_default();
        is_closing.await.unwrap_or_default();
        sweeper.abort();
        match tokio::time::timeout(SHUTDOWN_WAIT, server).await {
            Ok(Ok(Ok(()))) => {}
            Ok(Ok(Err(error))) => warn!(error, "the embedded database ended with an error"),
            Ok(Err(_)) | Err(_) => warn!("the embedded database left requests unfinished"),
        }
    });
    runtime.shutdown_timeout(SHUTDOWN_WAIT);
}

/// Dynoxide removes what has expired only when asked.
async fn sweep_expired(database: Database) {
    loop {
        tokio::time::sleep(TTL_SWEEP_PAUSE).await;
        let database = database.clone();
        if let Ok(Err(error)) = tokio::task::spawn_blocking(move || database.sweep_ttl()).await {
            warn!(%error, "expired items were not removed");
        }
    }
}
