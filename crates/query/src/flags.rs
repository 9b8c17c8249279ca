//! The flags of packets in runs of schema 1, a byte of the TCP header, as the letters of schema 2.

use datafusion::logical_expr::{Expr, Operator, binary_expr, case, col, lit};
use datafusion::prelude::{cast, concat};
use datafusion::{arrow::datatypes::DataType, error::Result};

/// The letters by bit, in the order in which they are written.
const LETTERS: [(i64, &str); 8] =
    [(0x02, "S"), (0x10, "A"), (0x08, "P"), (0x01, "F"), (0x04, "R"), (0x20, "U"), (0x40, "E"), (0x80, "C")];

/// The column's letters, as text of this type.
pub fn letters(column: &str, text: &DataType) -> Result<Expr> {
    let each = LETTERS
        .iter()
        .map(|(bit, letter)| {
            let bits = binary_expr(col(column), Operator::BitwiseAnd, lit(*bit));
            case(bits.not_eq(lit(0_i64))).when(lit(true), lit(*letter)).otherwise(lit(""))
        })
        .collect::<Result<Vec<_>>>()?;
    Ok(cast(concat(each), text.clone()))
}
