//! The least that a function in Rust can be: what `tests/lambda-figures.sh` measures the stream function beside.

use lambda_runtime::{Error, LambdaEvent, service_fn};
use serde_json::value::RawValue;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    lambda_runtime::run(service_fn(async |_: LambdaEvent<Box<RawValue>>| Ok::<_, Error>("hello"))).await
}
