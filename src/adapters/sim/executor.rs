//! Running futures by hand. Nothing in the simulation ever waits for the outside, so being polled again is all it takes.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

/// Runs a future of the simulation to its end.
pub fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = std::pin::pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return output;
        }
    }
}

/// A future that is run step by step: at most one request to the store takes effect in a step. Dropping it between two
/// steps is a crash.
pub struct Stepper<'a, T> {
    future: Option<Pin<Box<dyn Future<Output = T> + 'a>>>,
}

impl<'a, T> Stepper<'a, T> {
    pub fn new(future: impl Future<Output = T> + 'a) -> Stepper<'a, T> {
        Stepper { future: Some(Box::pin(future)) }
    }

    /// One step; the output when the future is done, `None` before and after.
    pub fn step(&mut self) -> Option<T> {
        let future = self.future.as_mut()?;
        match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Pending => None,
            Poll::Ready(output) => {
                self.future = None;
                Some(output)
            }
        }
    }

    pub fn is_done(&self) -> bool {
        self.future.is_none()
    }
}

/// Gives all others one turn.
pub async fn yield_now() {
    let mut turned = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut turned, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
