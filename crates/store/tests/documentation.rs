//! `docs/runs.md` names every column of every table, in order, with its nullability.

#[test]
fn every_column_is_documented() {
    let doc = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/runs.md")).unwrap();
    let mut tables: Vec<&str> = store::tables().map(|c| c.0).collect();
    tables.dedup();
    assert!(tables.len() >= 9, "{tables:?}");
    for table in tables {
        let section = doc.split(&format!("\n### `{table}`")).nth(1).unwrap_or_else(|| panic!("no section {table}"));
        let section = section.split("\n### ").next().unwrap().split("\n## ").next().unwrap();
        let documented: Vec<(String, bool)> = section
            .lines()
            .filter_map(|l| {
                let mut cells = l.strip_prefix("| `")?.split(" | ");
                let name = cells.next()?.trim_end_matches('`').to_owned();
                Some((name, cells.next()?.trim() == "yes"))
            })
            .collect();
        let declared: Vec<(String, bool)> =
            store::tables().filter(|c| c.0 == table).map(|c| (c.1.to_owned(), c.3)).collect();
        assert_eq!(documented, declared, "columns of {table}");
    }
}
