//! Footers of parts: whether a part is whole and of this layout, before any of its rows is read.

use std::sync::Arc;

use datafusion::common::Statistics;
use datafusion::datasource::physical_plan::parquet::metadata::DFParquetMetadata;
use datafusion::execution::cache::cache_manager::FileMetadataCache;
use datafusion::parquet::arrow::parquet_to_arrow_schema;
use object_store::{ObjectMeta, ObjectStore};

use crate::catalog::Shape;
use crate::shape;

/// Bytes at the end of a part that are read with the first request: the footer of most parts.
const FOOTER: usize = 64 << 10;

/// What the footer of a whole part says.
#[derive(Debug)]
pub struct Footer {
    /// The layout's version.
    pub schema: u32,
    /// Rows, least and greatest values.
    pub statistics: Arc<Statistics>,
}

/// The footer of a part of this table; else why the part is skipped.
pub async fn read(
    store: &dyn ObjectStore,
    part: &ObjectMeta,
    cache: Arc<FileMetadataCache>,
    shape: &Shape,
) -> Result<Footer, String> {
    let hint = usize::try_from(part.size).unwrap_or(usize::MAX).min(FOOTER);
    let metadata = DFParquetMetadata::new(store, part)
        .with_metadata_size_hint(Some(hint))
        .with_file_metadata_cache(Some(cache))
        .fetch_metadata()
        .await
        .map_err(|e| reason(&e.to_string()))?;
    let file = metadata.file_metadata();
    let pairs = file.key_value_metadata();
    let schema: u32 = pairs
        .and_then(|pairs| pairs.iter().find(|p| p.key == "wirelapse.schema")?.value.as_ref()?.parse().ok())
        .ok_or("its metadata has no wirelapse.schema: it is not of a run")?;
    if !(store::EARLIEST_SCHEMA..=store::SCHEMA).contains(&schema) {
        return Err(format!(
            "it is of schema {schema}; this version reads {} to {}",
            store::EARLIEST_SCHEMA,
            store::SCHEMA
        ));
    }
    let columns = parquet_to_arrow_schema(file.schema_descr(), pairs).map_err(|e| reason(&e.to_string()))?;
    if let Some(obstacle) = shape::obstacle(shape, &columns) {
        return Err(obstacle);
    }
    let stored = if schema == 1 { Arc::new(shape::first_schema(shape)) } else { shape.stored.clone() };
    let statistics = DFParquetMetadata::statistics_from_parquet_metadata(&metadata, &stored)
        .unwrap_or_else(|_| Statistics::new_unknown(&stored));
    Ok(Footer { schema, statistics: Arc::new(statistics) })
}

/// The reader's error in a few words.
fn reason(error: &str) -> String {
    if error.contains("magic number")
        || error.contains("Corrupt footer")
        || error.contains("EOF")
        || error.contains("smaller than")
    {
        return "it is cut short or no Parquet file".into();
    }
    if error.contains("ermission denied") {
        return "no permission to read it".into();
    }
    error.trim_start_matches("Parquet error: ").trim_start_matches("External: ").to_owned()
}
