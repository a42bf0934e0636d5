//! The line between the door and the queue: first come, first served, however long it takes to
//! understand each request.
//!
//! A request joins when its body is complete. It is read, rendered and tokenised wherever that suits
//! it, beside others, and enters the queue when all who came before it have entered or gone.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// Everybody who stands in line.
#[derive(Default)]
pub struct Line(Mutex<Standing>);

#[derive(Default)]
struct Standing {
    next_number: u64,
    /// By number, and how to call each of them if it waits for its turn already.
    places: BTreeMap<u64, Option<Waker>>,
}

/// A place in line. Dropping it lets the next one through, whether its turn had come or not.
pub struct Place {
    line: Arc<Line>,
    number: u64,
}

impl Line {
    /// Takes the place at the end.
    pub fn join(self: &Arc<Self>) -> Place {
        let mut standing = self.standing();
        let number = standing.next_number;
        standing.next_number += 1;
        standing.places.insert(number, None);
        Place { line: Arc::clone(self), number }
    }

    fn standing(&self) -> MutexGuard<'_, Standing> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// Waits until nobody stands in front.
    pub async fn turn(&self) {
        poll_fn(|context| self.poll_turn(context)).await;
    }

    fn poll_turn(&self, context: &Context<'_>) -> Poll<()> {
        let mut standing = self.line.standing();
        let first = standing.places.first_key_value().map(|(&number, _)| number);
        if first == Some(self.number) {
            return Poll::Ready(());
        }
        standing.places.insert(self.number, Some(context.waker().clone()));
        Poll::Pending
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut standing = self.line.standing();
        standing.places.remove(&self.number);
        let next = standing.places.first_entry().and_then(|mut first| first.get_mut().take());
        drop(standing);
        if let Some(next) = next {
            next.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn turns_come_in_the_order_of_joining_and_who_leaves_blocks_nobody() {
        let line = Arc::new(Line::default());
        let [first, second, third, fourth] = [(); 4].map(|()| line.join());
        let has_come = |place: &Place| place.turn().now_or_never().is_some();
        assert!(has_come(&first) && !has_come(&second) && !has_come(&fourth));
        drop(second);
        assert!(has_come(&first) && !has_come(&third));
        drop(first);
        assert!(has_come(&third) && !has_come(&fourth));
        drop(third);
        assert!(has_come(&fourth));
        drop(fourth);
        assert!(has_come(&line.join()));
    }

    #[test]
    fn who_waits_is_woken_when_the_last_one_in_front_leaves() {
        let line = Arc::new(Line::default());
        let [first, second, third] = [(); 3].map(|()| line.join());
        let (flag, waker) = counting_waker();
        assert!(third.poll_turn(&Context::from_waker(&waker)).is_pending());
        drop(first);
        assert_eq!(flag.load(Ordering::SeqCst), 0);
        drop(second);
        assert_eq!(flag.load(Ordering::SeqCst), 1);
    }

    /// A waker that counts.
    fn counting_waker() -> (Arc<AtomicUsize>, Waker) {
        struct Counts(Arc<AtomicUsize>);
        impl Wake for Counts {
            fn wake(self: Arc<Self>) {
                self.0.fetch_add(1, Ordering::SeqCst);
            }
        }
        let count = Arc::default();
        (Arc::clone(&count), Waker::from(Arc::new(Counts(count))))
    }
}
