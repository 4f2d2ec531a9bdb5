# catalogs
SELECT COUNT(*) FROM information_schema.tables
SELECT COUNT(*) FROM information_schema.columns
SELECT table_name FROM information_schema.tables
SELECT COUNT(*) FROM "information_schema"."columns"
SELECT COUNT(*) FROM INFORMATION_SCHEMA.SCHEMATA
SELECT COUNT(*) FROM system.information_schema.tables
SELECT COUNT(*) FROM pg_catalog.pg_class
SELECT COUNT(*) FROM pg_catalog.pg_tables
SELECT COUNT(*) FROM pg_class
SELECT COUNT(*) FROM pg_attribute
SELECT COUNT(*) FROM pg_settings
SELECT COUNT(*) FROM pg_tables
SELECT COUNT(*) FROM sqlite_master
SELECT COUNT(*) FROM sqlite_schema
SELECT COUNT(*) FROM sqlite_temp_master
SELECT sql FROM sqlite_master
SELECT COUNT(*) FROM duckdb_tables()
SELECT COUNT(*) FROM duckdb_columns()
SELECT COUNT(*) FROM duckdb_databases()
SELECT COUNT(*) FROM duckdb_functions()
SELECT COUNT(*) FROM duckdb_secrets()
SELECT COUNT(*) FROM duckdb_logs
SELECT COUNT(*) FROM duckdb_log_contexts()
SELECT COUNT(*) FROM duckdb_memory()
SELECT COUNT(*) FROM duckdb_temporary_files()
SELECT COUNT(*) FROM duckdb_variables()
SELECT COUNT(*) FROM duckdb_approx_database_count()
SELECT COUNT(*) FROM duckdb_extensions
SELECT COUNT(*) FROM pragma_table_info('visits')
SELECT COUNT(*) FROM pragma_storage_info('rows')
SELECT COUNT(*) FROM pragma_database_size()
SELECT COUNT(*) FROM pragma_metadata_info()
SELECT COUNT(*) FROM "pragma_show"('visits')
SELECT COUNT(*) FROM visits WHERE EXISTS (SELECT 1 FROM duckdb_tables())
SELECT COUNT(*) FROM visits JOIN duckdb_columns() AS c ON true
SELECT stats('age') FROM visits
SELECT COUNT(*) FROM visits WHERE stats(age) LIKE '%Max%'
SELECT typeof(age) FROM visits
SELECT pg_typeof(age) FROM visits
SELECT version() FROM visits
SELECT current_database() FROM visits
SELECT current_schema() FROM visits
SELECT current_schemas(true) FROM visits
SELECT current_user FROM visits
SELECT session_user FROM visits
SELECT current_query() FROM visits
SELECT txid_current() FROM visits
SELECT pg_size_pretty(1) FROM visits
SELECT in_search_path('a', 'b') FROM visits
SELECT nextval('s') FROM visits
SELECT currval('s') FROM visits
# text that becomes SQL
SELECT COUNT(*) FROM query('SELECT * FROM visits')
SELECT COUNT(*) FROM query_table('visits')
SELECT COUNT(*) FROM query_table(['visits', 'people'])
SELECT COUNT(*) FROM json_execute_serialized_sql('{}')
SELECT COUNT(*) FROM json_execute_serialized_sql(json_serialize_sql('SELECT 1'))
SELECT json_serialize_sql('SELECT 1') FROM visits
SELECT json_serialize_plan('SELECT 1') FROM visits
SELECT COUNT(*) FROM from_substrait('x')
SELECT COUNT(*) FROM from_substrait_json('{}')
SELECT COUNT(*) FROM sql_auto_complete('SEL')
SELECT eval('1') FROM visits
SELECT COUNT(*) FROM identifier('visits')
SELECT COUNT(*) FROM :table
SELECT COUNT(*) FROM visits WHERE age > ?
SELECT COUNT(*) FROM visits WHERE age > $1
SELECT COUNT(*) FROM visits WHERE age > :age
SELECT COUNT(*) FROM visits WHERE age > @age
SELECT COUNT(*) FROM visits WHERE age > %(age)s
SELECT COUNT(*) FROM visits WHERE age > {{ age }}
SELECT COUNT(*) FROM visits WHERE age > ${age}
SELECT COUNT(*) FROM {table}
# the Python process
SELECT COUNT(*) FROM staff_frame
SELECT COUNT(*) FROM secret_frame
SELECT COUNT(*) FROM outside
SELECT COUNT(*) FROM self
SELECT COUNT(*) FROM __file__
SELECT COUNT(*) FROM "__import__('os').environ"
SELECT __import__('os') FROM visits
SELECT COUNT(*) FROM visits WHERE ward = __class__
SELECT python_map_function() FROM visits
SELECT COUNT(*) FROM (SELECT * FROM secret_frame)
WITH f AS (FROM secret_frame) SELECT COUNT(*) FROM f
