//! The built function as a process, under a Runtime API: cargo-lambda's, or a small one of its own.
//!
//! cargo-lambda's emulator queues the events of all callers for one process and waits for its answer however long, so a process that is
//! killed in the midst of an event leaves its caller waiting. Where processes are killed, each has a Runtime API to itself, which
//! ends with it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::{HeaderName, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use tablekeeper::adapters::clock::SystemClock;
use tablekeeper::engine::ports::Clock as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, MutexGuard, mpsc, oneshot};

use crate::program::{Ended, Program, alone};

/// `host:port` of cargo-lambda's emulator.
const EMULATOR: &str = "TABLEKEEPER_LAMBDA_EMULATOR";
/// Path of the built function.
const BINARY: &str = "TABLEKEEPER_LAMBDA_BINARY";
/// What a function is given for one event.
const TIME: Duration = Duration::from_secs(60);
/// Between two looks whether a process is still there.
const PAUSE: Duration = Duration::from_millis(10);

/// What the script has built and started.
#[derive(Clone)]
pub struct Built {
    pub emulator: String,
    pub binary: String,
}

/// `None`, with a word on standard error: `cargo test` alone has neither function nor emulator.
pub fn built(test: &str) -> Option<Built> {
    let (Ok(emulator), Ok(binary)) = (std::env::var(EMULATOR), std::env::var(BINARY)) else {
        eprintln!("skipped: {test}: {EMULATOR} and {BINARY} are not set; tests/lambda-emulator.sh sets them");
        return None;
    };
    Some(Built { emulator, binary })
}

/// Starts a program as a function on the tables of `quality` at `endpoint`.
pub fn start(binary: &str, runtime_api: &str, endpoint: &str) -> Program {
    let mut command = alone(binary);
    command
        .env("AWS_LAMBDA_RUNTIME_API", runtime_api)
        .env("AWS_LAMBDA_FUNCTION_NAME", "_")
        .env("AWS_LAMBDA_FUNCTION_VERSION", "1")
        .env("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "256")
        .env("AWS_ENDPOINT_URL", endpoint)
        .env("AWS_REGION", "us-east-1")
        .env("AWS_ACCESS_KEY_ID", "local")
        .env("AWS_SECRET_ACCESS_KEY", "local")
        .env("RUST_LOG", "info,tablekeeper=debug")
        .env("TABLEKEEPER_MODEL", "quality");
    Program::spawn(command)
}

/// A function under cargo-lambda's emulator. It has one queue, so there is one at a time.
pub struct Emulated {
    emulator: String,
    program: Program,
    _alone: MutexGuard<'static, ()>,
}

static EMULATOR_IN_USE: Mutex<()> = Mutex::const_new(());

impl Emulated {
    pub async fn start(built: &Built, endpoint: &str) -> Emulated {
        let alone = EMULATOR_IN_USE.lock().await;
        let program = start(&built.binary, &format!("http://{}/.rt", built.emulator), endpoint);
        Emulated { emulator: built.emulator.clone(), program, _alone: alone }
    }

    /// Invokes it; the answer's body.
    pub async fn invoke(&self, event: &str) -> String {
        let (address, length) = (&self.emulator, event.len());
        let path = "/2015-03-31/functions/_/invocations";
        let head = format!("POST {path} HTTP/1.0\r\nHost: {address}\r\nContent-Length: {length}\r\n\r\n");
        let mut connection = TcpStream::connect(address).await.expect("the emulator listens");
        connection.write_all(head.as_bytes()).await.unwrap();
        connection.write_all(event.as_bytes()).await.unwrap();
        let mut answer = String::new();
        let read = connection.read_to_string(&mut answer);
        tokio::time::timeout(TIME, read).await.expect("an answer in time").unwrap();
        answer.split_once("\r\n\r\n").map(|(_, body)| body.trim().to_owned()).expect("an HTTP answer")
    }

    pub async fn kill(self) -> Log {
        Log(self.program.kill().await)
    }
}

/// Why an invocation has no answer.
#[derive(Debug, PartialEq, Eq)]
pub enum Failed {
    /// The function says so, in these words.
    Error(String),
    /// Its process is gone.
    Gone,
}

type Answers = BTreeMap<String, oneshot::Sender<Result<String, String>>>;

struct Api {
    events: Mutex<mpsc::UnboundedReceiver<(String, String)>>,
    answers: std::sync::Mutex<Answers>,
}

/// A function with a Runtime API of its own. Dropping it kills it.
pub struct Function {
    program: Program,
    api: Arc<Api>,
    events: mpsc::UnboundedSender<(String, String)>,
    invocations: usize,
    server: tokio::task::JoinHandle<()>,
}

impl Function {
    /// Starts `binary`, with its tables at `endpoint`.
    pub async fn start(binary: &str, endpoint: &str) -> Function {
        Function::with(|runtime_api| start(binary, runtime_api, endpoint)).await
    }

    /// The same for a program that `start` starts, given the address of its Runtime API.
    pub async fn with(start: impl FnOnce(&str) -> Program) -> Function {
        let (events, waiting) = mpsc::unbounded_channel();
        let api = Arc::new(Api { events: Mutex::new(waiting), answers: Default::default() });
        let router = Router::new()
            .route("/2018-06-01/runtime/invocation/next", get(next))
            .route("/2018-06-01/runtime/invocation/{id}/response", post(response))
            .route("/2018-06-01/runtime/invocation/{id}/error", post(error))
            .layer(axum::extract::DefaultBodyLimit::disable())
            .with_state(Arc::clone(&api));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tokio::spawn(async move { axum::serve(listener, router).await.expect("it serves") });
        Function { program: start(&address.to_string()), api, events, invocations: 0, server }
    }

    pub async fn invoke(&mut self, event: &str) -> Result<String, Failed> {
        self.invocations += 1;
        let id = format!("00000000-0000-4000-8000-{:012}", self.invocations);
        let (answer, mut answered) = oneshot::channel();
        self.api.answers.lock().unwrap().insert(id.clone(), answer);
        self.events.send((id, event.to_owned())).expect("it is served");
        loop {
            tokio::select! {
                answer = &mut answered => return answer.expect("kept until it is answered").map_err(Failed::Error),
                () = tokio::time::sleep(PAUSE) => {}
            }
            if self.program.has_ended() {
                // What it may have said in its last moment counts.
                tokio::time::sleep(PAUSE).await;
                return answered.try_recv().map_or(Err(Failed::Gone), |answer| answer.map_err(Failed::Error));
            }
        }
    }

    pub fn id(&self) -> u32 {
        self.program.id()
    }

    /// Kills it as `kill -9` does; what it has said.
    pub async fn kill(self) -> Log {
        self.server.abort();
        Log(self.program.kill().await)
    }
}

async fn next(State(api): State<Arc<Api>>) -> Response {
    let Some((id, event)) = api.events.lock().await.recv().await else {
        // Its owner has given it up.
        return StatusCode::GONE.into_response();
    };
    let deadline = SystemClock::new().now().timestamp_millis() + TIME.as_millis() as i64;
    let header = |name: &'static str, value: String| (HeaderName::from_static(name), value);
    let headers = [
        header("lambda-runtime-aws-request-id", id),
        header("lambda-runtime-deadline-ms", deadline.to_string()),
        header("lambda-runtime-invoked-function-arn", "arn:aws:lambda:us-east-1:000000000000:function:_".to_owned()),
        header("content-type", "application/json".to_owned()),
    ];
    (headers, event).into_response()
}

async fn response(State(api): State<Arc<Api>>, Path(id): Path<String>, body: Bytes) -> StatusCode {
    api.answer(&id, Ok(String::from_utf8_lossy(&body).into_owned()))
}

async fn error(State(api): State<Arc<Api>>, Path(id): Path<String>, body: Bytes) -> StatusCode {
    api.answer(&id, Err(String::from_utf8_lossy(&body).into_owned()))
}

impl Api {
    fn answer(&self, id: &str, answer: Result<String, String>) -> StatusCode {
        if let Some(waiting) = self.answers.lock().unwrap().remove(id) {
            // Nobody waits any more where the test has lost its patience.
            let _ = waiting.send(answer);
        }
        StatusCode::ACCEPTED
    }
}

/// The log of a function that has ended: JSON lines.
pub struct Log(Ended);

impl Log {
    pub fn lines(&self) -> impl Iterator<Item = serde_json::Value> {
        self.0.out.lines().filter_map(|line| serde_json::from_str(line).ok())
    }

    /// The sum of a number in its lines.
    pub fn sum(&self, field: &str) -> u64 {
        self.lines().filter_map(|line| line["fields"][field].as_u64()).sum()
    }

    /// True if one of its lines is a warning of these words.
    pub fn warns(&self, words: &str) -> bool {
        self.lines().any(|line| line["level"] == "WARN" && line.to_string().contains(words))
    }
}
