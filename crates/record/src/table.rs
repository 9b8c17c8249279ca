//! Field tables: each record described once, field by field.
//!
//! A field's line gives its name, its place in the record, why it may be null, what it means, and
//! where it comes from. All forms of output follow from these tables: the keys of JSON lines, the
//! columns of Parquet tables, and the tables of `docs/records.md`. To add a field, add its line;
//! nothing else names it.
//!
//! The unit is the end of the name: `_ns`, `_bytes`, `_segments`, `_bytes_per_second`. A field of a
//! record that is stored on disk for the first time in a later version must be able to be null,
//! because earlier runs do not have it.

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use crate::{Comm, ConnectionId, DropReason, Instant, Monotonic, Nanos, SeqNumber, TcpFlags, json};

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
    /// A moment in UTC, microseconds since 1970: a timestamp in Parquet.
    Time,
    /// A whole number that can be negative, in a column of Parquet; its value is the two's
    /// complement.
    Signed,
    /// Any text.
    Text,
    /// A word from a closed list, or an address: text that needs no escaping in JSON.
    Word,
    /// A real number.
    Real,
    /// Yes or no: `true` or `false` in JSON, 1 or 0 in Parquet.
    Flag,
    /// What only JSON holds: a list, an object, a number that can be negative. In `run.json`; a
    /// Parquet column would hold its text.
    Json,
}

/// The value of a field.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'a> {
    /// There is none.
    Null,
    /// For [`Kind::Id`], [`Kind::Number`], [`Kind::Moment`], [`Kind::Duration`], [`Kind::Time`] and
    /// [`Kind::Signed`].
    Number(u64),
    /// For [`Kind::Text`] and [`Kind::Word`].
    Text(Cow<'a, str>),
    /// For [`Kind::Real`].
    Real(f64),
    /// For [`Kind::Flag`].
    Flag(bool),
    /// For [`Kind::Json`].
    Json(Cow<'a, serde_json::Value>),
}

/// Puts a value into a record; the error says what is wrong with it.
pub type Set<T> = for<'a> fn(&mut T, Value<'a>) -> Result<(), &'static str>;

/// One field of a record of type `T`.
pub struct Column<T: 'static> {
    /// The key in JSON and the column in Parquet; its unit is its end. `group.key` is a key of an
    /// object: see [`object`].
    pub name: &'static str,
    /// `,"name":`, as a JSON line needs it.
    pub json_key: &'static str,
    /// What earlier versions called it on disk.
    pub former: Option<&'static str>,
    /// Its type.
    pub kind: Kind,
    /// The words that it can be; empty where the list is open.
    pub words: &'static [&'static str],
    /// Why it can be null; `None` where it never is.
    pub null: Option<&'static str>,
    /// What it means.
    pub doc: &'static str,
    /// The kernel's field that it is read from; empty where it is taken by Wirelapse or derived
    /// from other fields.
    pub source: &'static str,
    /// How pages show it, where they show all that a record has.
    pub shown: Option<Shown>,
    /// The table of the record, or of each record of the list, that it holds.
    pub inside: Option<&'static str>,
    /// Puts a stored value into a record that is read back; `None` for a field that is derived from
    /// others. The error says what is wrong with the value. Fields are set in the order of the
    /// table.
    pub set: Option<Set<T>>,
}

/// How pages name a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shown {
    /// Its name. Of a field within another one it follows that one's name, unless it is `under` it.
    pub label: &'static str,
    /// It is a part of the field before it.
    pub under: bool,
}

/// A field of a record as pages show it.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Where it is in the record, such as `rtt.min_ns`: the same in each record of a type.
    pub path: String,
    /// Its name.
    pub label: Cow<'static, str>,
    /// It is a part of the field before it.
    pub under: bool,
    /// Its type.
    pub kind: Kind,
    /// Its value; none where there is none, or nothing was counted.
    pub value: Value<'static>,
}

/// The fields of a record that pages show, those of the records inside it among them.
pub fn rows<R: Record>(record: &R) -> Vec<Row> {
    let mut rows = Vec::new();
    gather(record, "", None, &mut rows);
    rows
}

fn gather<R: Record>(record: &R, path: &str, within: Option<Shown>, rows: &mut Vec<Row>) {
    struct Gather<'a, R: 'static> {
        columns: std::slice::Iter<'static, Column<R>>,
        path: &'a str,
        within: Option<Shown>,
        rows: &'a mut Vec<Row>,
    }
    impl<R> Fields for Gather<'_, R> {
        fn field<C: Cell>(&mut self, _: &'static str, value: &C) {
            let Some(column) = self.columns.next() else { return };
            let dot = if self.path.is_empty() { "" } else { "." };
            let path = format!("{}{dot}{}", self.path, column.name);
            if C::INSIDE.is_some() {
                return value.rows(&path, column.shown, self.rows);
            }
            let Some(shown) = column.shown else { return };
            let label = match self.within {
                Some(within) if !shown.under => format!("{}, {}", within.label, shown.label).into(),
                _ => shown.label.into(),
            };
            let value = match value.value() {
                Value::Number(0) | Value::Flag(false) if !C::NULLABLE => Value::Null,
                value => owned(value),
            };
            self.rows.push(Row { path, label, under: shown.under, kind: C::KIND, value });
        }
    }
    record.each(&mut Gather { columns: R::COLUMNS.iter(), path, within, rows });
}

fn owned(value: Value<'_>) -> Value<'static> {
    match value {
        Value::Null => Value::Null,
        Value::Number(n) => Value::Number(n),
        Value::Text(text) => Value::Text(Cow::Owned(text.into_owned())),
        Value::Real(value) => Value::Real(value),
        Value::Flag(flag) => Value::Flag(flag),
        Value::Json(json) => Value::Json(Cow::Owned(json.into_owned())),
    }
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

    /// Passes the value of each field to `to`, in the order of the table.
    fn each(&self, to: &mut impl Fields);
}

/// Takes the fields of a record, one after the other: a form of output is written once, and
/// compiled for each record.
pub trait Fields {
    /// The next field: `json_key` is that of its [`Column`].
    fn field<C: Cell>(&mut self, json_key: &'static str, value: &C);
}

/// A type that a field can have.
pub trait Cell: Sized {
    /// The type of the field.
    const KIND: Kind;
    /// Whether it can be null.
    const NULLABLE: bool = false;
    /// The words of a closed list.
    const WORDS: &'static [&'static str] = &[];
    /// The table of the record that it is, or of each record of the list.
    const INSIDE: Option<&'static str> = None;

    /// The value.
    fn value(&self) -> Value<'_>;

    /// Appends the value as JSON.
    #[inline]
    fn write_json(&self, out: &mut Vec<u8>) {
        json::value(out, Self::KIND, self.value());
    }

    /// Adds the fields inside it that pages show; `path` leads to it, and `within` is how it is
    /// shown itself.
    fn rows(&self, _path: &str, _within: Option<Shown>, _rows: &mut Vec<Row>) {}

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
        Value::Text(_) | Value::Real(_) | Value::Json(_) => Err("is not a whole number"),
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

macro_rules! json {
    ($($type:ty, $what:literal;)*) => {$(
        impl Cell for $type {
            const KIND: Kind = Kind::Json;
            fn value(&self) -> Value<'_> {
                Value::Json(Cow::Owned(self.clone().into()))
            }
            fn from_value(value: Value<'_>) -> Result<Self, &'static str> {
                serde_json::from_value(to_json(value)).map_err(|_| $what)
            }
        }
    )*};
}

/// A record that is a field of another one: see [`inside`](crate::inside).
pub trait Inside: Record {}

/// The record as the value of a field.
#[doc(hidden)]
pub fn record_value<R: Record>(record: &R) -> Value<'_> {
    Value::Json(Cow::Owned(object::of(record).into()))
}

/// The record in the value of a field.
#[doc(hidden)]
pub fn record_from<R: Record>(value: Value<'_>) -> Result<R, &'static str> {
    match value {
        Value::Json(json) => json.as_object().and_then(|fields| object::read(fields).ok()).ok_or("has other fields"),
        _ => Err("is no object"),
    }
}

/// Adds the fields of a record that is a field of another one.
#[doc(hidden)]
pub fn record_rows<R: Record>(record: &R, path: &str, within: Option<Shown>, rows: &mut Vec<Row>) {
    gather(record, path, within, rows);
}

impl<R: Inside> Cell for Vec<R> {
    const KIND: Kind = Kind::Json;
    const INSIDE: Option<&'static str> = Some(R::TABLE);
    fn value(&self) -> Value<'_> {
        Value::Json(Cow::Owned(self.iter().map(|r| serde_json::Value::from(object::of(r))).collect()))
    }
    fn from_value(value: Value<'_>) -> Result<Self, &'static str> {
        match to_json(value) {
            serde_json::Value::Array(list) => {
                list.into_iter().map(|r| record_from(Value::Json(Cow::Owned(r)))).collect()
            }
            _ => Err("is no list"),
        }
    }
    fn write_json(&self, out: &mut Vec<u8>) {
        json::array(out, self, |out, record| json::object(out, record));
    }
}

impl Cell for Vec<u64> {
    const KIND: Kind = Kind::Json;
    fn value(&self) -> Value<'_> {
        Value::Json(Cow::Owned(self.clone().into()))
    }
    fn from_value(value: Value<'_>) -> Result<Self, &'static str> {
        serde_json::from_value(to_json(value)).map_err(|_| "is no list of numbers")
    }
    fn write_json(&self, out: &mut Vec<u8>) {
        json::array(out, self, |out, n| json::number(out, *n));
    }
}

json! {
    Vec<String>, "is no list of texts";
    i64, "is no whole number of 64 bits";
    serde_json::Value, "is not JSON";
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

/// A text of this program's own. It is written, and not read back.
impl Cell for &'static str {
    const KIND: Kind = Kind::Text;
    fn value(&self) -> Value<'_> {
        Value::Text(Cow::Borrowed(self))
    }
    fn from_value(_: Value<'_>) -> Result<Self, &'static str> {
        Err("is not read back")
    }
}

impl Cell for SocketAddr {
    const KIND: Kind = Kind::Word;
    fn value(&self) -> Value<'_> {
        Value::Text(Cow::Owned(self.to_string()))
    }
    fn from_value(value: Value<'_>) -> Result<Self, &'static str> {
        text(value)?.parse().map_err(|_| "is no address with a port")
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
    const INSIDE: Option<&'static str> = C::INSIDE;
    fn value(&self) -> Value<'_> {
        self.as_ref().map_or(Value::Null, C::value)
    }
    #[inline]
    fn write_json(&self, out: &mut Vec<u8>) {
        match self {
            Some(value) => value.write_json(out),
            None => out.extend_from_slice(b"null"),
        }
    }
    fn rows(&self, path: &str, within: Option<Shown>, rows: &mut Vec<Row>) {
        if let Some(value) = self {
            value.rows(path, within, rows);
        }
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

/// What the type of a field says of it.
#[doc(hidden)]
#[derive(Clone, Copy)]
pub struct Type {
    pub kind: Kind,
    pub nullable: bool,
    pub words: &'static [&'static str],
    pub inside: Option<&'static str>,
}

impl Type {
    const fn of<C: Cell>() -> Self {
        Self { kind: C::KIND, nullable: C::NULLABLE, words: C::WORDS, inside: C::INSIDE }
    }
}

/// The type of the field that `_place` leads to.
#[doc(hidden)]
pub const fn kind_at<T, C: Cell>(_place: for<'a> fn(&'a T) -> &'a C) -> Type {
    Type::of::<C>()
}

/// The type of the field that `_made` makes.
#[doc(hidden)]
pub const fn kind_of<T, C: Cell>(_made: fn(&T) -> C) -> Type {
    Type::of::<C>()
}

/// The value as JSON.
fn to_json(value: Value<'_>) -> serde_json::Value {
    match value {
        Value::Null => serde_json::Value::Null,
        Value::Number(n) => n.into(),
        Value::Text(text) => text.into_owned().into(),
        Value::Real(value) => value.into(),
        Value::Flag(flag) => flag.into(),
        Value::Json(json) => json.into_owned(),
    }
}

/// The JSON as a value.
fn of_json(json: &serde_json::Value) -> Value<'_> {
    match json {
        serde_json::Value::Null => Value::Null,
        serde_json::Value::Bool(flag) => Value::Flag(*flag),
        serde_json::Value::String(text) => Value::Text(Cow::Borrowed(text)),
        serde_json::Value::Number(n) => match (n.as_u64(), n.as_f64()) {
            (Some(n), _) => Value::Number(n),
            (None, Some(value)) if !n.is_i64() => Value::Real(value),
            _ => Value::Json(Cow::Borrowed(json)),
        },
        serde_json::Value::Array(_) | serde_json::Value::Object(_) => Value::Json(Cow::Borrowed(json)),
    }
}

/// A record as a JSON object of its fields: `#[serde(with = "record::table::object")]`.
///
/// Fields with a common beginning, `clock.offset_ns` and `clock.error_ns`, are an object in it,
/// `clock`, which is null where all of them are.
pub mod object {
    use serde::de::Error as _;
    use serde::ser::SerializeMap as _;
    use serde::{Deserialize as _, Deserializer, Serialize, Serializer};
    use serde_json::{Map, Value as Json};

    use super::{Cell, Record, Value, of_json, to_json};

    /// The keys of an object with their values, in the order of the table.
    pub struct Fields(pub Vec<(&'static str, Field)>);

    /// The value of a key.
    pub enum Field {
        /// One field.
        One(Json),
        /// Those with a common beginning.
        Group(Fields),
    }

    impl Serialize for Fields {
        fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
            let mut map = to.serialize_map(Some(self.0.len()))?;
            for (key, field) in &self.0 {
                match field {
                    Field::One(value) => map.serialize_entry(key, value)?,
                    Field::Group(fields) => map.serialize_entry(key, &(!fields.is_null()).then_some(fields))?,
                }
            }
            map.end()
        }
    }

    /// The object itself: its keys are text and its values JSON, so nothing can be refused.
    impl From<Fields> for Json {
        fn from(fields: Fields) -> Self {
            let value = |field| match field {
                Field::One(value) => value,
                Field::Group(fields) if fields.is_null() => Self::Null,
                Field::Group(fields) => fields.into(),
            };
            Self::Object(fields.0.into_iter().map(|(key, field)| (key.to_owned(), value(field))).collect())
        }
    }

    impl Fields {
        /// Whether none of them is there: then a group is null.
        pub fn is_null(&self) -> bool {
            self.0.iter().all(|(_, field)| matches!(field, Field::One(Json::Null)))
        }
    }

    /// The fields of a record in their order.
    pub fn of<R: Record>(record: &R) -> Fields {
        struct Values(Vec<Json>);
        impl super::Fields for Values {
            fn field<C: Cell>(&mut self, _: &'static str, value: &C) {
                self.0.push(to_json(value.value()));
            }
        }
        let mut values = Values(Vec::with_capacity(R::COLUMNS.len()));
        record.each(&mut values);
        let mut fields: Vec<(&'static str, Field)> = Vec::with_capacity(R::COLUMNS.len());
        for (column, value) in R::COLUMNS.iter().zip(values.0) {
            let value = Field::One(value);
            match (column.name.split_once('.'), fields.last_mut()) {
                (Some((group, key)), Some((last, Field::Group(inner)))) if *last == group => inner.0.push((key, value)),
                (Some((group, key)), _) => fields.push((group, Field::Group(Fields(vec![(key, value)])))),
                (None, _) => fields.push((column.name, value)),
            }
        }
        Fields(fields)
    }

    /// The record of an object; a field that can be null is null where the object has none. Keys
    /// that are no fields are skipped.
    ///
    /// # Errors
    /// The field that is missing, or has a value that it cannot have.
    pub fn read<R: Record>(object: &Map<String, Json>) -> Result<R, String> {
        fill(object, true)
    }

    fn fill<R: Record>(object: &Map<String, Json>, whole: bool) -> Result<R, String> {
        let mut record = R::blank();
        for column in R::COLUMNS {
            let Some(set) = column.set else { continue };
            let value = match column.name.split_once('.') {
                Some((group, key)) => object.get(group).and_then(|group| group.get(key)),
                None => object.get(column.name),
            };
            let value = match value {
                Some(value) => of_json(value),
                None if column.null.is_some() => Value::Null,
                None if whole => return Err(format!("{} is missing", column.name)),
                None => continue,
            };
            set(&mut record, value).map_err(|why| format!("{} {why}", column.name))?;
        }
        Ok(record)
    }

    /// Writes its fields in their order.
    ///
    /// # Errors
    /// What the serializer says.
    pub fn serialize<R: Record, S: Serializer>(record: &R, to: S) -> Result<S::Ok, S::Error> {
        of(record).serialize(to)
    }

    /// As [`read`].
    ///
    /// # Errors
    /// As [`read`], and those of the deserializer.
    pub fn deserialize<'de, R: Record, D: Deserializer<'de>>(from: D) -> Result<R, D::Error> {
        read(&Map::deserialize(from)?).map_err(D::Error::custom)
    }

    /// A record of counters, or none: `#[serde(with = "record::table::object::counters")]`. What an
    /// earlier version did not count is as in [`Record::blank`].
    pub mod counters {
        use super::{Deserializer, Map, Record, Serializer, fill, of};
        use serde::de::Error as _;
        use serde::{Deserialize as _, Serialize as _};

        /// Writes its fields in their order; null for none.
        ///
        /// # Errors
        /// What the serializer says.
        pub fn serialize<R: Record, S: Serializer>(record: &Option<R>, to: S) -> Result<S::Ok, S::Error> {
            record.as_ref().map(of).serialize(to)
        }

        /// Reads the fields of its table.
        ///
        /// # Errors
        /// A value that its field cannot have, named.
        pub fn deserialize<'de, R: Record, D: Deserializer<'de>>(from: D) -> Result<Option<R>, D::Error> {
            let object = Option::<Map<_, _>>::deserialize(from)?;
            object.map(|object| fill(&object, false)).transpose().map_err(D::Error::custom)
        }
    }
}

/// Declares the field table of a record: `impl Record`.
///
/// ```ignore
/// columns! {
///     Packet: "packets", "packet", blank = Packet::blank();
///     connection_id = connection, "its connection";                        // stored: read from and put back to this place
///     sched_at_ns = sched, null "it was not scheduled", "…", from "…";     // can be null, with its source in the kernel
///     bytes = bytes, formerly "length", "…";                               // runs of earlier versions have it by another name
///     qdisc_ns = |p| leg(p), null "a stage is missing", "…";               // derived: never read back
///     local_port = |c| c.local.port(), set |c, v| set_port(&mut c.local, v), "…";
///     "clock.offset_ns" = clock.offset, "…";                               // a key of the object `clock`
///     fast = fast, "…", under "by fast retransmit";                        // with its name on pages, as a part of the field before it
/// }
/// ```
#[macro_export]
macro_rules! columns {
    ($record:ty: $table:literal, $kind:literal, blank = $blank:expr; $($fields:tt)*) => {
        $crate::columns!(@each $record, [] [] $($fields)* end $table, $kind, $blank);
    };
    (@each $record:ty, [$($column:tt)*] [$({ $name:tt, $r:ident, $get:expr })*] end $table:literal, $kind:literal, $blank:expr) => {
        impl $crate::table::Record for $record {
            const TABLE: &'static str = $table;
            const KIND: &'static str = $kind;
            const COLUMNS: &'static [$crate::table::Column<Self>] = &[$($column)*];
            fn blank() -> Self {
                $blank
            }
            #[inline]
            fn each(&self, to: &mut impl $crate::table::Fields) {
                $({
                    let $r = self;
                    to.field(concat!(",\"", $crate::columns!(@name $name), "\":"), &$get);
                })*
            }
        }
    };
    // Derived, with a way back.
    (@each $record:ty, [$($done:tt)*] [$($got:tt)*] $name:tt = |$r:ident| $get:expr, set |$t:ident, $v:ident| $set:expr,
        $(null $null:literal,)? $doc:literal $(, from $source:literal)?; $($rest:tt)*) => {
        $crate::columns!(@each $record, [$($done)* {
            const OF: $crate::table::Type = $crate::table::kind_of(|$r: &$record| $get);
            $crate::columns!(@column $record, OF, $name, [], $doc, [$($null)?], [$($source)?], [],
                Some(|$t: &mut $record, $v: $crate::table::Value<'_>| -> Result<(), &'static str> { $set }))
        },] [$($got)* { $name, $r, $get }] $($rest)*);
    };
    // Derived from other fields.
    (@each $record:ty, [$($done:tt)*] [$($got:tt)*] $name:tt = |$r:ident| $get:expr,
        $(null $null:literal,)? $doc:literal $(, from $source:literal)?; $($rest:tt)*) => {
        $crate::columns!(@each $record, [$($done)* {
            const OF: $crate::table::Type = $crate::table::kind_of(|$r: &$record| $get);
            $crate::columns!(@column $record, OF, $name, [], $doc, [$($null)?], [$($source)?], [], None)
        },] [$($got)* { $name, $r, $get }] $($rest)*);
    };
    // A place in the record.
    (@each $record:ty, [$($done:tt)*] [$($got:tt)*] $name:tt = $first:ident $(. $next:ident)*,
        $(formerly $former:literal,)? $(null $null:literal,)? $doc:literal $(, from $source:literal)? $(, shown $shown:literal)? $(, under $under:literal)?;
        $($rest:tt)*) => {
        $crate::columns!(@each $record, [$($done)* {
            const OF: $crate::table::Type = $crate::table::kind_at(|r: &$record| &r.$first$(.$next)*);
            $crate::columns!(@column $record, OF, $name, [$($former)?], $doc, [$($null)?], [$($source)?], [$($shown)? $(under $under)?],
                Some(|r: &mut $record, v: $crate::table::Value<'_>| -> Result<(), &'static str> {
                    r.$first$(.$next)* = $crate::table::Cell::from_value(v)?;
                    Ok(())
                }))
        },] [$($got)* { $name, r, r.$first$(.$next)* }] $($rest)*);
    };
    (@column $record:ty, $of:ident, $name:tt, [$($former:literal)?], $doc:literal, [$($null:literal)?], [$($source:literal)?], [$($shown:tt)*], $set:expr) => {{
        const NULL: Option<&str> = $crate::columns!(@option $($null)?);
        // A field is null only for a reason that its line gives.
        const { assert!($of.nullable == NULL.is_some(), concat!($crate::columns!(@name $name), ": give the reason for null, or none")) };
        $crate::table::Column {
            name: $crate::columns!(@name $name),
            json_key: concat!(",\"", $crate::columns!(@name $name), "\":"),
            former: $crate::columns!(@option $($former)?),
            kind: $of.kind,
            words: $of.words,
            inside: $of.inside,
            shown: $crate::columns!(@shown $($shown)*),
            null: NULL,
            doc: $doc,
            source: concat!($($source)?),
            set: $set,
        }
    }};
    (@name $name:ident) => { stringify!($name) };
    (@name $name:literal) => { $name };
    (@shown) => { None };
    (@shown under $label:literal) => { Some($crate::table::Shown { label: $label, under: true }) };
    (@shown $label:literal) => { Some($crate::table::Shown { label: $label, under: false }) };
    (@option) => { None };
    (@option $text:literal) => { Some($text) };
}

/// Makes records fields of others: an object in JSON, and separate rows on pages.
#[macro_export]
macro_rules! inside {
    ($($record:ty),* $(,)?) => {$(
        impl $crate::table::Inside for $record {}

        impl $crate::table::Cell for $record {
            const KIND: $crate::table::Kind = $crate::table::Kind::Json;
            const INSIDE: Option<&'static str> = Some(<$record as $crate::table::Record>::TABLE);
            fn value(&self) -> $crate::table::Value<'_> {
                $crate::table::record_value(self)
            }
            fn from_value(value: $crate::table::Value<'_>) -> Result<Self, &'static str> {
                $crate::table::record_from(value)
            }
            fn write_json(&self, out: &mut Vec<u8>) {
                $crate::json::object(out, self);
            }
            fn rows(
                &self,
                path: &str,
                within: Option<$crate::table::Shown>,
                rows: &mut Vec<$crate::table::Row>,
            ) {
                $crate::table::record_rows(self, path, within, rows);
            }
        }
    )*};
}

/// Gives an enumeration its closed list of words: `ALL`, `name()`, and the [`Cell`] of a field that
/// holds one.
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
            fn from_value(value: $crate::table::Value<'_>) -> Result<Self, &'static str> {
                let word = $crate::table::text(value)?;
                Self::ALL.into_iter().find(|one| one.name() == word).ok_or("is no word of its list")
            }
        }
    };
}
