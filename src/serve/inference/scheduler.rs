//! Who is next: first come, first served, and nothing else. Pure.
//!
//! One slot, so there is nothing to choose; what takes care is that a request whose client has gone
//! never starts and takes no memory.

use std::collections::VecDeque;

/// Something that waits.
pub trait Waiting {
    /// Whether nobody waits for it any more.
    fn is_cancelled(&self) -> bool;
}

/// The queue.
#[derive(Debug)]
pub struct Scheduler<T> {
    waiting: VecDeque<T>,
}

impl<T> Default for Scheduler<T> {
    fn default() -> Self {
        Self { waiting: VecDeque::new() }
    }
}

impl<T: Waiting> Scheduler<T> {
    /// Puts one at the end.
    pub fn push(&mut self, job: T) {
        self.waiting.push_back(job);
    }

    /// The one that came first of those that somebody still waits for.
    pub fn next(&mut self) -> Option<T> {
        while let Some(job) = self.waiting.pop_front() {
            if !job.is_cancelled() {
                return Some(job);
            }
        }
        None
    }

    /// Lets go of those that nobody waits for any more.
    pub fn forget_cancelled(&mut self) {
        self.waiting.retain(|job| !job.is_cancelled());
    }

    /// Takes all out, first come first.
    pub fn drain(&mut self) -> impl Iterator<Item = T> + '_ {
        self.waiting.drain(..)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use proptest::prelude::*;

    use super::*;

    #[derive(Debug)]
    struct Fake {
        number: usize,
        gone: Rc<Cell<bool>>,
    }

    impl Waiting for Fake {
        fn is_cancelled(&self) -> bool {
            self.gone.get()
        }
    }

    /// What a test does to the queue.
    #[derive(Debug, Clone)]
    enum Act {
        Arrive,
        HangUp(usize),
        Serve,
        Sweep,
    }

    fn act() -> impl Strategy<Value = Act> {
        prop_oneof![
            3 => Just(Act::Arrive),
            2 => (0usize..64).prop_map(Act::HangUp),
            2 => Just(Act::Serve),
            1 => Just(Act::Sweep),
        ]
    }

    proptest! {
        /// Whatever happens in between: the served are exactly the arrived that did not hang up
        /// before their turn, in the order of their arrival.
        #[test]
        fn served_in_order_of_arrival_without_the_gone(acts in prop::collection::vec(act(), 0..200)) {
            let mut scheduler = Scheduler::default();
            let mut switches: Vec<Rc<Cell<bool>>> = Vec::new();
            let mut model: VecDeque<usize> = VecDeque::new();
            for act in acts {
                match act {
                    Act::Arrive => {
                        let gone = Rc::new(Cell::new(false));
                        scheduler.push(Fake { number: switches.len(), gone: Rc::clone(&gone) });
                        model.push_back(switches.len());
                        switches.push(gone);
                    }
                    Act::HangUp(which) => {
                        if let Some(switch) = switches.get(which) {
                            switch.set(true);
                            model.retain(|&number| number != which);
                        }
                    }
                    Act::Serve => {
                        prop_assert_eq!(scheduler.next().map(|job| job.number), model.pop_front());
                    }
                    Act::Sweep => {
                        scheduler.forget_cancelled();
                        prop_assert_eq!(scheduler.waiting.len(), model.len());
                    }
                }
            }
            scheduler.forget_cancelled();
            let rest: Vec<usize> = scheduler.drain().map(|job| job.number).collect();
            prop_assert_eq!(rest, Vec::from(model));
        }
    }
}
