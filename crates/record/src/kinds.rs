//! The kinds of findings.

/// Declares kinds of findings, in the order of their list: the word of each in the output, the
/// words for people, and when it is drawn.
macro_rules! kinds {
    ($(#[$about:meta])* $type:ident: $($kind:ident = $name:literal, $words:literal, $rule:literal;)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        $(#[$about])*
        pub enum $type {
            $(#[doc = $rule] $kind,)*
        }

        $crate::words! {
            $type: $($kind = $name),*;
        }

        impl $type {
            /// The kind for people.
            pub const fn words(self) -> &'static str {
                match self {
                    $(Self::$kind => $words,)*
                }
            }

            /// When it is drawn.
            pub const fn rule(self) -> &'static str {
                match self {
                    $(Self::$kind => $rule,)*
                }
            }
        }
    };
}

pub(crate) use kinds;
