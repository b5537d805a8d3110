// Package parquet writes histories as tables in Parquet files, so that an engine
// for SQL can be asked about them: one file to a table, the raw facts of the lines
// and no verdict. Its reader is whoever runs the files of package sql, or asks
// questions of his own; the tables and their columns are described in
// sql/README.md.
//
// Many histories lie in one set of files: each row says of which history it is.
package parquet
