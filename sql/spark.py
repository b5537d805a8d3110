#!/usr/bin/env python3
"""Runs the judge in Spark over folders that verify export --parquet has written.

    spark-submit sql/spark.py DIR...

Prints one row for each history, and the counts of all together.
"""
import glob
import os
import sys

from pyspark.sql import SparkSession

# Views that several others ask: Spark would work them out again for each.
SHARED = ["outcomes", "readings", "final_logs", "logged", "first_places"]


def main(folders):
    if not folders:
        sys.exit("usage: spark-submit spark.py DIR...")
    spark = SparkSession.builder.appName("ackproof judge").getOrCreate()
    for path in sorted(glob.glob(os.path.join(folders[0], "*.parquet"))):
        table = os.path.basename(path)
        rows = spark.read.parquet(*[os.path.join(folder, table) for folder in folders])
        rows.createOrReplaceTempView(table.removesuffix(".parquet"))
    here = os.path.dirname(os.path.abspath(__file__))
    for path in sorted(glob.glob(os.path.join(here, "[0-9]*.sql"))):
        with open(path, encoding="utf-8") as file:
            for statement in file.read().split(";\n"):
                if statement.strip():
                    spark.sql(statement)
                    for view in SHARED:
                        if f"TEMPORARY VIEW {view} AS" in statement:
                            spark.catalog.cacheTable(view)
    for row in spark.sql("SELECT * FROM counts ORDER BY history").collect():
        print(*row[1:], row[0], sep="\t")
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
