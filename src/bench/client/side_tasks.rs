//! The futures that an HTTP/2 connection of hyper's wants to have spawned, polled beside it instead.
//!
//! So one task, the request's own, does all that a connection needs, and no other one has to be
//! woken between the socket and the stamp.

use std::cell::RefCell;
use std::future::Future;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::Poll;

use hyper::rt::Executor;

type Task = Pin<Box<dyn Future<Output = ()>>>;

/// Takes tasks in. Its clones share them.
#[derive(Clone, Default)]
pub(super) struct SideTasks {
    new: Rc<RefCell<Vec<Task>>>,
}

impl<F: Future<Output = ()> + 'static> Executor<F> for SideTasks {
    fn execute(&self, task: F) {
        self.new.borrow_mut().push(Box::pin(task));
    }
}

impl SideTasks {
    /// `main`, with every task that was or will be taken in beside it; ends when all have ended.
    /// `main` alone ends early: at a server's farewell (GOAWAY), while the answers that are under way
    /// still come.
    pub(super) async fn beside<T>(self, main: impl Future<Output = T>) -> T {
        let mut main = pin!(main);
        let mut ended = None;
        let mut running: Vec<Task> = Vec::new();
        std::future::poll_fn(move |cx| {
            if ended.is_none()
                && let Poll::Ready(value) = main.as_mut().poll(cx)
            {
                ended = Some(value);
            }
            loop {
                running.append(&mut self.new.borrow_mut());
                running.retain_mut(|task| task.as_mut().poll(cx).is_pending());
                if self.new.borrow().is_empty() {
                    break;
                }
            }
            let all_ended = running.is_empty();
            ended.take_if(|_| all_ended).map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn tasks_run_beside_the_main_one_and_those_that_they_start_too() {
        let tasks = SideTasks::default();
        let (say, said) = tokio::sync::oneshot::channel();
        let inner = tasks.clone();
        tasks.execute(async move {
            tokio::task::yield_now().await;
            inner.execute(async move { say.send(7).unwrap() });
        });
        assert_eq!(tasks.beside(said).await, Ok(7));
    }

    /// After a farewell hyper takes no more requests, and reads the answers that are under way.
    #[tokio::test]
    async fn tasks_that_outlive_the_main_one_are_run_to_their_end() {
        let tasks = SideTasks::default();
        let (say, mut said) = tokio::sync::oneshot::channel();
        tasks.execute(async move {
            tokio::task::yield_now().await;
            say.send(7).unwrap();
        });
        tasks.beside(std::future::ready(())).await;
        assert_eq!(said.try_recv(), Ok(7));
    }
}
