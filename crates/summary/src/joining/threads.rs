//! Whether a program works on each request in one thread, which has no other meanwhile: then what
//! that thread asks is for that request, however many the program has open.
//!
//! **Does not:** guess. That a program works so is taken to be true once [`ENOUGH`] of its requests
//! were open together with others and did not contradict it, and until the first one that does: an
//! event loop has several requests in one thread, and a program that passes its work around has one
//! request in several.

/// So many requests have to be seen, each with another one open at the same time. Programs that
/// work otherwise contradict it as soon as two of their requests meet in a thread, or one goes to
/// another thread.
pub(super) const ENOUGH: u32 = 32;

/// The threads that read and wrote the pieces of an exchange.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Threads {
    #[default]
    None,
    One(u32),
    /// Several, or one that is not known.
    Several,
}

impl Threads {
    /// Of a single piece.
    pub fn of(thread: Option<u32>) -> Self {
        let mut threads = Self::None;
        threads.add(thread);
        threads
    }

    /// One more piece, by this thread.
    pub fn add(&mut self, thread: Option<u32>) {
        *self = match (*self, thread) {
            (Self::None, Some(thread)) => Self::One(thread),
            (Self::One(one), Some(thread)) if one == thread => Self::One(one),
            _ => Self::Several,
        }
    }

    /// Whether both are the work of the same one thread.
    pub fn is_same(self, other: Self) -> bool {
        matches!(self, Self::One(_)) && self == other
    }

    fn is_one(self) -> bool {
        matches!(self, Self::One(_))
    }
}

/// What is known of how a program divides its work.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WaysOfWork {
    /// Requests that did not contradict it, with others open at the same time.
    agree: u32,
    contradicted: bool,
}

impl WaysOfWork {
    /// The program has answered a request; these others were open at the same time.
    pub fn answered(&mut self, threads: Threads, others: impl Iterator<Item = Threads>) {
        let mut met = 0;
        for other in others {
            met += 1;
            self.contradicted |= threads.is_same(other);
        }
        self.contradicted |= !threads.is_one();
        self.agree = self.agree.saturating_add(u32::from(met > 0));
    }

    /// It has asked something itself, and read the answer.
    pub fn asked(&mut self, threads: Threads) {
        self.contradicted |= !threads.is_one();
    }

    /// Whether each request is the work of one thread, which has no other meanwhile.
    pub fn by_thread(self) -> bool {
        self.agree >= ENOUGH && !self.contradicted
    }
}
