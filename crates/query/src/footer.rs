//! Footers of parts: whether a part is whole and of this layout, before any of its rows is read.

use std::error::Error;
use std::io;
use std::sync::Arc;

use datafusion::common::Statistics;
use datafusion::datasource::physical_plan::parquet::metadata::DFParquetMetadata;
use datafusion::execution::cache::cache_manager::FileMetadataCache;
use datafusion::parquet::arrow::parquet_to_arrow_schema;
use datafusion::parquet::errors::ParquetError;
use datafusion::parquet::file::metadata::PageIndexPolicy;
use object_store::ObjectMeta;

use crate::catalog::Shape;
use crate::{Place, shape, stores};

/// Bytes at the end of a part that are read with the first request: the footer of most parts.
const FOOTER: usize = 64 << 10;

/// Bytes of a part of a bucket up to which it is not worth while to know which pages a query needs:
/// most columns have one.
const FEW_PAGES: u64 = 1 << 20;

/// Whether it is to be known of a part which of its pages a query needs. Less is fetched from a
/// bucket so; the pages of a file are read in less time than the list of all columns' pages.
pub fn has_pages(place: &Place, part: &ObjectMeta) -> bool {
    place.directory().is_none() && part.size > FEW_PAGES
}

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
    place: &Place,
    part: &ObjectMeta,
    cache: Arc<FileMetadataCache>,
    shape: &Shape,
) -> Result<Footer, String> {
    let hint = usize::try_from(part.size).unwrap_or(usize::MAX).min(FOOTER);
    let metadata = DFParquetMetadata::new(place.store.as_ref(), part)
        .with_metadata_size_hint(Some(hint))
        .with_file_metadata_cache(Some(cache))
        .with_page_index_policy((!has_pages(place, part)).then_some(PageIndexPolicy::Skip))
        .fetch_metadata()
        .await
        .map_err(|error| reason(&error))?;
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
    let columns = parquet_to_arrow_schema(file.schema_descr(), pairs).map_err(|error| reason(&error))?;
    if let Some(obstacle) = shape::obstacle(shape, &columns) {
        return Err(obstacle);
    }
    let stored = if schema == 1 { Arc::new(shape::first_schema(shape)) } else { shape.stored.clone() };
    let statistics = DFParquetMetadata::statistics_from_parquet_metadata(&metadata, &stored)
        .unwrap_or_else(|_| Statistics::new_unknown(&stored));
    Ok(Footer { schema, statistics: Arc::new(statistics) })
}

/// Why a footer cannot be read: whether the store or the file is to blame.
fn reason(error: &(dyn Error + 'static)) -> String {
    if cause::<io::Error>(error).is_some_and(|error| error.kind() == io::ErrorKind::PermissionDenied) {
        return "no permission to read it".into();
    }
    if let Some(error) = cause::<object_store::Error>(error) {
        return stores::reason(error);
    }
    match cause::<ParquetError>(error) {
        Some(ParquetError::NYI(_) | ParquetError::External(_)) | None => error.to_string(),
        Some(_) => "it is cut short, damaged or no Parquet file".into(),
    }
}

/// The first error of a type among an error and its causes.
fn cause<'e, E: Error + 'static>(error: &'e (dyn Error + 'static)) -> Option<&'e E> {
    std::iter::successors(Some(error), |&error| error.source()).find_map(|error| error.downcast_ref())
}
