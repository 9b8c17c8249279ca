//! Rust types for those C types that a BPF object shares with user space, from the object's own
//! type information (BTF).
//!
//! A type is shared where a header says `SHARED(struct x);` (`src/bpf/kernel.h`).
//! `struct send_record` becomes `RawSend`, with the same fields at the same places; of an enum the
//! enumerators become constants. The compiler checks each size and each offset once more.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::path::Path;

use libbpf_rs::btf::types::{Array, DataSec, Enum, Int, IntEncoding, MemberAttr, Struct, Var};
use libbpf_rs::btf::{Btf, BtfType, HasSize as _, ReferencesType as _};

/// The section that `SHARED` puts its types in.
const SECTION: &str = "shared";

/// The shared types of all objects, as Rust text by name.
#[derive(Default)]
pub struct Bindings {
    structures: BTreeMap<String, String>,
    constants: BTreeMap<String, i64>,
}

impl Bindings {
    /// Adds the shared types of an object.
    ///
    /// # Errors
    /// What cannot be a Rust type, or differs from the type of the same name in another object.
    pub fn add(&mut self, object: &Path) -> Result<(), String> {
        let btf = Btf::from_path(object).map_err(|error| format!("no type information: {error}"))?;
        let Some(section) = btf.type_by_name::<DataSec<'_>>(SECTION) else { return Ok(()) };
        for entry in section.iter() {
            let var = btf.type_by_id::<Var<'_>>(entry.ty).ok_or("a data section holds variables")?;
            self.add_type(&btf, var.referenced_type().skip_mods_and_typedefs())?;
        }
        Ok(())
    }

    fn add_type(&mut self, btf: &Btf<'_>, ty: BtfType<'_>) -> Result<(), String> {
        if let Ok(structure) = Struct::try_from(ty) {
            return self.add_structure(btf, &structure);
        }
        let name = name_of(&ty);
        let list = Enum::try_from(ty).map_err(|_| format!("{name} is neither a structure nor an enum"))?;
        for member in list.iter() {
            let name = member.name.ok_or("an enumerator has a name")?.to_string_lossy().to_ascii_uppercase();
            if self.constants.insert(name.clone(), member.value).is_some_and(|other| other != member.value) {
                return Err(format!("{name} has another value in another object"));
            }
        }
        Ok(())
    }

    fn add_structure(&mut self, btf: &Btf<'_>, structure: &Struct<'_>) -> Result<(), String> {
        let name = rust_name(&name_of(structure));
        let (mut fields, mut checks, mut filled) = (String::new(), String::new(), 0);
        for member in structure.iter() {
            let field = member.name.ok_or(format!("{name} has a field without a name"))?.to_string_lossy();
            let MemberAttr::Normal { offset } = member.attr else {
                return Err(format!("{name}.{field} is a bit field"));
            };
            let ty = btf.type_by_id::<BtfType<'_>>(member.ty).ok_or("a field has a type")?;
            let ty = Field::new(btf, self, ty).map_err(|problem| format!("{name}.{field} {problem}"))?;
            let _ = writeln!(fields, "    pub {field}: {},", ty.text);
            let _ = writeln!(checks, "    assert!(std::mem::offset_of!({name}, {field}) == {});", offset / 8);
            filled += ty.size;
        }
        let size = structure.size();
        if filled != size {
            return Err(format!("{name} has {} bytes of padding: give them a field", size - filled));
        }
        let text = format!(
            "#[repr(C)]\n#[derive(Clone, Copy, Debug, PartialEq, Eq)]\npub(crate) struct {name} {{\n{fields}}}\n\n\
             const _: () = {{\n    assert!(size_of::<{name}>() == {size});\n{checks}}};\n\n\
             // SAFETY: repr(C), of integers, arrays of them and other such structures, whose sizes
             // add up to its own.\n\
             unsafe impl Plain for {name} {{}}\n\n"
        );
        match self.structures.insert(name.clone(), text.clone()) {
            Some(other) if other != text => Err(format!("{name} is another in another object")),
            _ => Ok(()),
        }
    }
}

/// A field's type in Rust.
struct Field {
    text: String,
    size: usize,
}

impl Field {
    fn new(btf: &Btf<'_>, bindings: &mut Bindings, ty: BtfType<'_>) -> Result<Self, String> {
        let ty = ty.skip_mods_and_typedefs();
        if let Ok(int) = Int::try_from(ty) {
            // A C `char` is a byte, whatever sign the compiler gives it.
            let letter = if matches!(int.encoding, IntEncoding::Signed) && name_of(&int) != "char" { 'i' } else { 'u' };
            return Ok(Self { text: format!("{letter}{}", int.bits), size: int.size() });
        }
        if let Ok(array) = Array::try_from(ty) {
            let of = Self::new(btf, bindings, array.contained_type())?;
            return Ok(Self { text: format!("[{}; {}]", of.text, array.capacity()), size: of.size * array.capacity() });
        }
        if let Ok(structure) = Struct::try_from(ty) {
            bindings.add_structure(btf, &structure)?;
            return Ok(Self { text: rust_name(&name_of(&structure)), size: structure.size() });
        }
        Err(format!("is of {:?}, but what is shared holds integers, arrays and structures alone", ty.kind()))
    }
}

fn name_of(ty: &BtfType<'_>) -> String {
    ty.name().map_or_else(|| "a type without a name".into(), |name| name.to_string_lossy().into_owned())
}

/// `send_record` is `RawSend`, `receive_row` is `RawReceiveRow`.
fn rust_name(name: &str) -> String {
    let words = name.strip_suffix("_record").unwrap_or(name).split('_');
    words.fold("Raw".into(), |mut all, word| {
        let (first, rest) = word.split_at(word.len().min(1));
        all.push_str(&first.to_ascii_uppercase());
        all.push_str(rest);
        all
    })
}

impl fmt::Display for Bindings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for text in self.structures.values() {
            f.write_str(text)?;
        }
        for (name, value) in &self.constants {
            // An enum of C is as wide as a u32, with a sign or not.
            writeln!(f, "pub(crate) const {name}: u32 = {};", *value as u32)?;
        }
        Ok(())
    }
}
