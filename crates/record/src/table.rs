//! Field tables: each record described once, field by field.
//!
//! A field's line gives its name, its place in the record, why it may be null, what it means, and where it comes from. All forms of
//! output follow from these tables: the keys of JSON lines, the columns of Parquet tables, and the tables of `docs/records.md`.
//! To add a field, add its line; nothing else names it.
//!
//! The unit is the end of the name: `_ns`, `_bytes`, `_segments`, `_bytes_per_second`. A field of a record that is stored on disk
//! for the first time in a later version must be able to be null, because earlier runs do not have it.

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use crate::{Comm, ConnectionId, DropReason, Instant, Monotonic, Nanos, SeqNumber, TcpFlags};

/// The type of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A number that identifies: all 64 bits are kept.
    Id,
    /// A whole number, zero or more.
    Number,
    /// A moment, nanoseconds on the clock that the record's documentation names.
    Moment,
    /// A duration in nanoseconds.
    Duration,
    /// Any text.
    Text,
    /// A word from a closed list, or an address: text that needs no escaping in JSON.
    Word,
    /// A real number.
    Real,
    /// Yes or no: `true` or `false` in JSON, 1 or 0 in Parquet.
    Flag,
}

/// The value of a field.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'a> {
    /// There is none.
    Null,
    /// For [`Kind::Id`], [`Kind::Number`], [`Kind::Moment`] and [`Kind::Duration`].
    Number(u64),
    /// For [`Kind::Text`] and [`Kind::Word`].
    Text(Cow<'a, str>),
    /// For [`Kind::Real`].
    Real(f64),
    /// For [`Kind::Flag`].
    Flag(bool),
}

/// Puts a value into a record; the error says what is wrong with it.
pub type Set<T> = for<'a> fn(&mut T, Value<'a>) -> Result<(), &'static str>;

/// One field of a record of type `T`.
pub struct Column<T: 'static> {
    /// The key in JSON and the column in Parquet; its unit is its end.
    pub name: &'static str,
    /// `,"name":`, as a JSON line needs it.
    pub json_key: &'static str,
    /// Its type.
    pub kind: Kind,
    /// The words that it can be; empty where the list is open.
    pub words: &'static [&'static str],
    /// Why it can be null; `None` where it never is.
    pub null: Option<&'static str>,
    /// What it means.
    pub doc: &'static str,
    /// The kernel's field that it is read from; empty where it is taken by Wirelapse or derived from other fields.
    pub source: &'static str,
    /// Its value in a record.
    pub get: for<'a> fn(&'a T) -> Value<'a>,
    /// Puts a stored value into a record that is read back; `None` for a field that is derived from others. The error says what is
    /// wrong with the value. Fields are set in the order of the table.
    pub set: Option<Set<T>>,
}

/// A record with its field table.
pub trait Record: Sized + 'static {
    /// The name of its table on disk.
    const TABLE: &'static str;
    /// The `kind` of its JSON line; empty where it has none.
    const KIND: &'static str;
    /// Its fields, in the order of all outputs.
    const COLUMNS: &'static [Column<Self>];

    /// A record to set fields of.
    fn blank() -> Self;
}

/// A type that a field can have.
pub trait Cell: Sized {
    /// The type of the field.
    const KIND: Kind;
    /// Whether it can be null.
    const NULLABLE: bool = false;
    /// The words of a closed list.
    const WORDS: &'static [&'static str] = &[];

    /// The value.
    fn value(&self) -> Value<'_>;

    /// The value of something that was made for it, such as a leg, and cannot be borrowed from the record.
    fn into_value(self) -> Value<'static> {
        match self.value() {
            Value::Text(text) => Value::Text(Cow::Owned(text.into_owned())),
            Value::Null => Value::Null,
            Value::Number(n) => Value::Number(n),
            Value::Real(value) => Value::Real(value),
            Value::Flag(flag) => Value::Flag(flag),
        }
    }

    /// The value back as this type.
    ///
    /// # Errors
    /// What is wrong with it: `is null`, `does not fit 32 bits`, ….
    fn from_value(value: Value<'_>) -> Result<Self, &'static str>;
}

/// The whole number in a value.
///
/// # Errors
/// As [`Cell::from_value`].
pub fn number(value: Value<'_>) -> Result<u64, &'static str> {
    match value {
        Value::Number(n) => Ok(n),
        Value::Flag(flag) => Ok(flag.into()),
        Value::Null => Err("is null or negative"),
        Value::Text(_) | Value::Real(_) => Err("is not a whole number"),
    }
}

/// The text in a value.
///
/// # Errors
/// As [`Cell::from_value`].
pub fn text(value: Value<'_>) -> Result<Cow<'_, str>, &'static str> {
    match value {
        Value::Text(text) => Ok(text),
        Value::Null => Err("is null"),
        _ => Err("is not text"),
    }
}

macro_rules! numbers {
    ($($type:ty, $kind:ident, $of:expr, $to:expr;)*) => {$(
        impl Cell for $type {
            const KIND: Kind = Kind::$kind;
            fn value(&self) -> Value<'_> {
                let of: fn($type) -> u64 = $of;
                Value::Number(of(*self))
            }
            fn into_value(self) -> Value<'static> {
                let of: fn($type) -> u64 = $of;
                Value::Number(of(self))
            }
            fn from_value(value: Value<'_>) -> Result<Self, &'static str> {
                let to: fn(u64) -> Result<$type, &'static str> = $to;
                number(value).and_then(to)
            }
        }
    )*};
}

numbers! {
    u64, Number, |n| n, Ok;
    u32, Number, u64::from, |n| n.try_into().map_err(|_| "does not fit 32 bits");
    u16, Number, u64::from, |n| n.try_into().map_err(|_| "does not fit 16 bits");
    u8, Number, u64::from, |n| n.try_into().map_err(|_| "does not fit 8 bits");
    Nanos, Duration, |n| n.0, |n| Ok(Nanos(n));
    Instant<Monotonic>, Moment, Instant::as_nanos, |n| Ok(Instant::from_nanos(n));
    ConnectionId, Id, |id| id.0, |n| Ok(ConnectionId(n));
    SeqNumber, Number, |seq| seq.0.into(), |n| n.try_into().map(SeqNumber).map_err(|_| "does not fit 32 bits");
}

impl Cell for bool {
    const KIND: Kind = Kind::Flag;
    fn value(&self) -> Value<'_> {
        Value::Flag(*self)
    }
    fn from_value(value: Value<'_>) -> Result<Self, &'static str> {
        match number(value)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err("is neither 0 nor 1"),
        }
    }
}

impl Cell for f64 {
    const KIND: Kind = Kind::Real;
    fn value(&self) -> Value<'_> {
        if self.is_finite() { Value::Real(*self) } else { Value::Null }
    }
    fn from_value(value: Value<'_>) -> Result<Self, &'static str> {
        match value {
            Value::Real(value) => Ok(value),
            Value::Null => Err("is null"),
            _ => Err("is not a real number"),
        }
    }
}

impl Cell for String {
    const KIND: Kind = Kind::Text;
    fn value(&self) -> Value<'_> {
        Value::Text(Cow::Borrowed(self))
    }
    fn from_value(value: Value<'_>) -> Result<Self, &'static str> {
        text(value).map(Cow::into_owned)
    }
}

impl Cell for Comm {
    const KIND: Kind = Kind::Text;
    fn value(&self) -> Value<'_> {
        Value::Text(self.text())
    }
    fn from_value(value: Value<'_>) -> Result<Self, &'static str> {
        text(value).map(|text| Self::from(&*text))
    }
}

impl Cell for DropReason {
    const KIND: Kind = Kind::Text;
    fn value(&self) -> Value<'_> {
        Value::Text(Cow::Borrowed(&self.0))
    }
    fn from_value(value: Value<'_>) -> Result<Self, &'static str> {
        text(value).map(|text| Self(Arc::from(&*text)))
    }
}

impl Cell for TcpFlags {
    const KIND: Kind = Kind::Word;
    fn value(&self) -> Value<'_> {
        Value::Text(Cow::Owned(self.to_string()))
    }
    fn from_value(value: Value<'_>) -> Result<Self, &'static str> {
        match value {
            // Schema 1 held the byte of the header.
            Value::Number(n) => n.try_into().map(Self).map_err(|_| "does not fit 8 bits"),
            other => Self::from_letters(&text(other)?).ok_or("has a letter that is no TCP flag"),
        }
    }
}

impl Cell for IpAddr {
    const KIND: Kind = Kind::Word;
    fn value(&self) -> Value<'_> {
        Value::Text(Cow::Owned(self.to_string()))
    }
    fn from_value(value: Value<'_>) -> Result<Self, &'static str> {
        text(value)?.parse().map_err(|_| "is no IP address")
    }
}

impl<C: Cell> Cell for Option<C> {
    const KIND: Kind = C::KIND;
    const NULLABLE: bool = true;
    const WORDS: &'static [&'static str] = C::WORDS;
    fn value(&self) -> Value<'_> {
        self.as_ref().map_or(Value::Null, C::value)
    }
    fn into_value(self) -> Value<'static> {
        self.map_or(Value::Null, C::into_value)
    }
    fn from_value(value: Value<'_>) -> Result<Self, &'static str> {
        if value == Value::Null { Ok(None) } else { C::from_value(value).map(Some) }
    }
}

/// The address half of an end of a connection.
///
/// # Errors
/// As [`Cell::from_value`].
pub fn set_address(end: &mut SocketAddr, value: Value<'_>) -> Result<(), &'static str> {
    end.set_ip(Cell::from_value(value)?);
    Ok(())
}

/// The port of an end of a connection.
///
/// # Errors
/// As [`Cell::from_value`].
pub fn set_port(end: &mut SocketAddr, value: Value<'_>) -> Result<(), &'static str> {
    end.set_port(Cell::from_value(value)?);
    Ok(())
}

/// A record's end before it is set.
pub(crate) const NO_END: SocketAddr = SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED), 0);

/// The type of the field that `_place` leads to.
#[doc(hidden)]
pub const fn kind_at<T, C: Cell>(_place: for<'a> fn(&'a T) -> &'a C) -> (Kind, bool, &'static [&'static str]) {
    (C::KIND, C::NULLABLE, C::WORDS)
}

/// The type of the field that `_made` makes.
#[doc(hidden)]
pub const fn kind_of<T, C: Cell>(_made: fn(&T) -> C) -> (Kind, bool, &'static [&'static str]) {
    (C::KIND, C::NULLABLE, C::WORDS)
}

/// Declares the field table of a record: `impl Record`.
///
/// ```ignore
/// columns! {
///     Packet: "packets", "packet", blank = Packet::blank();
///     connection_id = connection, "its connection";                        // stored: read from and put back to this place
///     sched_at_ns = sched, null "it was not scheduled", "…", from "…";     // can be null, with its source in the kernel
///     qdisc_ns = |p| leg(p), null "a stage is missing", "…";               // derived: never read back
///     local_port = |c| c.local.port(), set |c, v| set_port(&mut c.local, v), "…";
/// }
/// ```
#[macro_export]
macro_rules! columns {
    ($record:ty: $table:literal, $kind:literal, blank = $blank:expr; $($fields:tt)*) => {
        impl $crate::table::Record for $record {
            const TABLE: &'static str = $table;
            const KIND: &'static str = $kind;
            const COLUMNS: &'static [$crate::table::Column<Self>] = $crate::columns!(@each $record, [] $($fields)*);
            fn blank() -> Self {
                $blank
            }
        }
    };
    (@each $record:ty, [$($done:tt)*]) => { &[$($done)*] };
    // Derived, with a way back.
    (@each $record:ty, [$($done:tt)*] $name:ident = |$r:ident| $get:expr, set |$t:ident, $v:ident| $set:expr,
        $(null $null:literal,)? $doc:literal $(, from $source:literal)?; $($rest:tt)*) => {
        $crate::columns!(@each $record, [$($done)* {
            const OF: ($crate::table::Kind, bool, &[&str]) = $crate::table::kind_of(|$r: &$record| $get);
            $crate::columns!(@column $record, OF, $name, $doc, [$($null)?], [$($source)?],
                |$r: &$record| $crate::table::Cell::into_value($get),
                Some(|$t: &mut $record, $v: $crate::table::Value<'_>| -> Result<(), &'static str> { $set }))
        },] $($rest)*)
    };
    // Derived from other fields.
    (@each $record:ty, [$($done:tt)*] $name:ident = |$r:ident| $get:expr,
        $(null $null:literal,)? $doc:literal $(, from $source:literal)?; $($rest:tt)*) => {
        $crate::columns!(@each $record, [$($done)* {
            const OF: ($crate::table::Kind, bool, &[&str]) = $crate::table::kind_of(|$r: &$record| $get);
            $crate::columns!(@column $record, OF, $name, $doc, [$($null)?], [$($source)?],
                |$r: &$record| $crate::table::Cell::into_value($get), None)
        },] $($rest)*)
    };
    // A place in the record.
    (@each $record:ty, [$($done:tt)*] $name:ident = $first:ident $(. $next:ident)*,
        $(null $null:literal,)? $doc:literal $(, from $source:literal)?; $($rest:tt)*) => {
        $crate::columns!(@each $record, [$($done)* {
            const OF: ($crate::table::Kind, bool, &[&str]) = $crate::table::kind_at(|r: &$record| &r.$first$(.$next)*);
            $crate::columns!(@column $record, OF, $name, $doc, [$($null)?], [$($source)?],
                |r: &$record| $crate::table::Cell::value(&r.$first$(.$next)*),
                Some(|r: &mut $record, v: $crate::table::Value<'_>| -> Result<(), &'static str> {
                    r.$first$(.$next)* = $crate::table::Cell::from_value(v)?;
                    Ok(())
                }))
        },] $($rest)*)
    };
    (@column $record:ty, $of:ident, $name:ident, $doc:literal, [$($null:literal)?], [$($source:literal)?], $get:expr, $set:expr) => {{
        const NULL: Option<&str> = $crate::columns!(@option $($null)?);
        // A field is null only for a reason that its line gives.
        const { assert!($of.1 == NULL.is_some(), concat!(stringify!($name), ": give the reason for null, or none")) };
        $crate::table::Column {
            name: stringify!($name),
            json_key: concat!(",\"", stringify!($name), "\":"),
            kind: $of.0,
            words: $of.2,
            null: NULL,
            doc: $doc,
            source: concat!($($source)?),
            get: $get,
            set: $set,
        }
    }};
    (@option) => { None };
    (@option $text:literal) => { Some($text) };
}

/// Gives an enumeration its closed list of words: `ALL`, `name()`, and the [`Cell`] of a field that holds one.
#[macro_export]
macro_rules! words {
    ($type:ident: $($variant:ident = $word:literal),* $(,)?;) => {
        impl $type {
            /// All of them, in order.
            pub const ALL: [Self; [$($word),*].len()] = [$(Self::$variant),*];

            /// The word used in machine-readable output.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)*
                }
            }
        }

        impl $crate::table::Cell for $type {
            const KIND: $crate::table::Kind = $crate::table::Kind::Word;
            const WORDS: &'static [&'static str] = &[$($word),*];
            fn value(&self) -> $crate::table::Value<'_> {
                $crate::table::Value::Text(self.name().into())
            }
            fn into_value(self) -> $crate::table::Value<'static> {
                $crate::table::Value::Text(self.name().into())
            }
            fn from_value(value: $crate::table::Value<'_>) -> Result<Self, &'static str> {
                let word = $crate::table::text(value)?;
                Self::ALL.into_iter().find(|one| one.name() == word).ok_or("is no word of its list")
            }
        }
    };
}
