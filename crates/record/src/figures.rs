//! The figures of a run as a tree, in the form that machines read.

use std::borrow::Cow;

/// The figures of a run by their keys, in the order in which they are shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures(pub Vec<(Cow<'static, str>, Figure)>);

/// One figure, or a group of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Figure {
    /// A whole number; `None` where there is none, which is never zero.
    Number(Option<u128>),
    /// Figures that belong together.
    Group(Figures),
}

impl Figures {
    /// Adds a number.
    pub fn number(&mut self, key: &'static str, value: impl Into<u128>) {
        self.0.push((key.into(), Figure::Number(Some(value.into()))));
    }

    /// Adds a number that may not be there.
    pub fn number_or_null(&mut self, key: &'static str, value: Option<impl Into<u128>>) {
        self.0.push((key.into(), Figure::Number(value.map(Into::into))));
    }

    /// Adds a number under a key that is known only now, such as the kernel's name for a reason.
    pub fn counted(&mut self, key: &str, n: u64) {
        self.0.push((key.to_owned().into(), Figure::Number(Some(n.into()))));
    }

    /// Adds a group, filled by the function.
    pub fn group(&mut self, key: &'static str, fill: impl FnOnce(&mut Self)) {
        let mut inner = Self::default();
        fill(&mut inner);
        self.0.push((key.into(), Figure::Group(inner)));
    }
}
