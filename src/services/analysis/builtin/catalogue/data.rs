//! Databases and their migrations.

super::signature::signatures! {
    MigrationFailed 90
        hints "migration"
        pattern r#"Migration (?:of schema "[^"]+" to version "(?P<version>[^"]+)"|(?P<file>\S+)) failed|(?:failed|error) (?:to apply|applying|running|to run|executing) (?:the )?migrations?:? ?(?P<name>\S*)|A migration failed to apply|migration failed(?: for changeset (?P<changeset>\S+\w))?"#
        cause "a database migration failed: {version/changeset/file/name|see the line}"
        fix "fix it according to the database's message, and check what was already applied before it is run again"
        like "ERROR: Migration V41__add.sql failed",
            "Error: P3018 A migration failed to apply. New migrations cannot be applied before the error is recovered from.";
    MigrationFailed 92
        hints "already exists"
        pattern r#"(?:relation|column|table|index|type|constraint|duplicate column|schema) [`"']?(?P<what>[^`"'\s]+)[`"']?(?: of relation \S+)? already exists|Table '(?P<mysql>[^']+)' already exists"#
        cause "the schema already has `{what/mysql}`, which a migration tries to add"
        fix "find out which migration added it; mark that one as applied, or make this one tolerate it"
        like r#"ERROR:  relation "orders" already exists"#,
            "ERROR 1050 (42S01) at line 3: Table 'orders' already exists";
    MigrationFailed 84
        hints "does not exist", "unknown column", "doesn't exist", "no such table", "no such column",
            "undefinedtable", "undefinedcolumn"
        pattern r#"(?:relation|column|table|type|function|constraint|database|schema) \\?[`"'](?P<what>[^`"'\\]+)\\?[`"'](?: of relation \S+)? does not exist|Unknown column '(?P<column>[^']+)'|Table '(?P<table>[^']+)' doesn't exist|no such (?:table|column): (?P<sqlite>\S+)"#
        cause "the database has no `{what/column/table/sqlite}`: a migration was not run, or another database is used"
        fix "run the migrations before this step, in the same database"
        like r#"ERROR:  relation "invoices" does not exist"#,
            "django.db.utils.OperationalError: no such table: shop_order";
    MigrationFailed 84
        hints "violates", "duplicate entry", "unique constraint", "cannot be null", "contains null values",
            "not null constraint", "check constraint", "cannot insert the value null"
        pattern r#"NOT NULL constraint failed: (?P<sqlite>\S+)|CHECK constraint failed|Cannot insert the value NULL|violates (?P<kind>[\w-]+(?: key)?) constraint(?: "(?P<name>[^"]+)")?|Duplicate entry '[^']*' for key|UNIQUE constraint failed|column "(?P<column>[^"]+)".* contains null values"#
        cause "data in the database contradicts a constraint: {name/column/sqlite|see the line}"
        fix "clean up the data in a migration before adding the constraint, or fix the inserted data"
        like r#"ERROR:  duplicate key value violates unique constraint "users_email_key""#,
            "ERROR:  column \"tenant\" of relation \"orders\" contains null values";
    MigrationFailed 92
        hints "foreign key", "referenced table", "errno: 150", "referenced column"
        pattern r#"violates foreign key constraint(?: "(?P<name>[^"]+)")?|a foreign key constraint fails|FOREIGN KEY constraint failed|(?:Cannot|Failed to|Can't) add (?:the )?foreign key constraint(?: '(?P<mysql>[^']+)')?|errno: 150|no unique constraint matching given keys for referenced table "(?P<table>[^"]+)"|conflicted with the (?:FOREIGN KEY|REFERENCE) constraint|foreign key constraint .{0,80}(?:are incompatible|cannot be implemented)"#
        cause "a foreign key does not hold: {name/mysql/table|see the line}"
        fix "insert or delete in the order of the references, clean up rows without a counterpart first, and give both columns the same type"
        like r#"ERROR:  insert or update on table "orders" violates foreign key constraint "orders_customer_id_fkey""#,
            "sqlite3.IntegrityError: FOREIGN KEY constraint failed",
            "ERROR 1215 (HY000) at line 9: Cannot add foreign key constraint";
    Syntax 92
        hints "fatal config file error", "bad directive or wrong number"
        pattern r"FATAL CONFIG FILE ERROR|Bad directive or wrong number of arguments"
        cause "Redis does not accept its configuration"
        fix "fix the line that follows: a directive that this version of Redis does not have, or a value that it does not take"
        like "*** FATAL CONFIG FILE ERROR (Redis 7.0.5) ***";
    MigrationFailed 86
        hints "checksum mismatch", "validate failed", "pending migration", "can't locate revision", "multiple head",
            "conflicting migrations", "pendingmigrationerror", "dirty database"
        pattern r"Validate failed: Migrations have failed validation|PendingMigrationError|Can't locate revision identified by '(?P<revision>[^']+)'|Multiple head revisions|Conflicting migrations detected|Dirty database version (?P<version>\d+)|migrations? (?:is|are) pending"
        cause "the migrations in the code and those in the database are inconsistent"
        fix "never change a migration that was applied: restore it and add a new one; then repair the history as the tool describes"
        like "alembic.util.exc.CommandError: Can't locate revision identified by '4f1c2d'",
            "error: Dirty database version 41. Fix and force version.";
    MigrationFailed 74
        hints "sqlstate", "error 1", "operationalerror", "programmingerror", "psql:"
        pattern r"psql:\S+:\d+: ERROR: |ERROR \d{4} \([0-9A-Z]{5}\)(?: at line \d+)?: |SQLSTATE\[|(?:sqlalchemy|django|psycopg2?|mysql)\S*\.(?:OperationalError|ProgrammingError|InternalError|DataError|IntegrityError)"
        cause "a database statement failed"
        fix "fix it according to the database's message"
        like "psql:migrations/7.sql:12: ERROR:  cannot drop table customers because other objects depend on it",
            "SQLSTATE[42S22]: Column not found";
    MigrationFailed 78
        hints "ora-", "msg ", "mongoservererror", "clickhouse"
        pattern r"\bORA-\d{5}: (?P<oracle>[^\r\n]+)|^Msg \d+, Level \d+, State \d+|MongoServerError: (?P<mongo>[^\r\n]+)|DB::Exception: (?P<click>[^\r\n]+)"
        cause "a database statement failed: {oracle/mongo/click|see the next line}"
        fix "fix it according to the database's message"
        like "Message    : ORA-00942: table or view does not exist",
            "Msg 207, Level 16, State 1, Server db, Line 4";
    MigrationFailed 88
        hints "all later migrations canceled", "could not create unique index", "migration file", "cannot drop"
        pattern r"all later migrations canceled|could not create unique index \x22(?P<index>[^\x22]+)\x22|migration file \S+ failed|cannot drop \w+ (?P<what>\S+) because other objects depend"
        cause "a database migration failed: {index/what|see the lines around}"
        fix "fix the data or the migration according to the database's message"
        like "StandardError: An error has occurred, this and all later migrations canceled:",
            "psycopg2.errors.UniqueViolation: could not create unique index \"orders_reference_key\"";
    MigrationFailed 93
        hints "migration checksum mismatch", "checksums of the following", "validation failed:"
        pattern r"Migration checksum mismatch|Validation Failed:\s*$|change ?sets? check ?sum"
        cause "a migration that was applied has been changed since"
        fix "restore the applied migration and put the change into a new one; then repair the history as the tool describes"
        like "ERROR: Validate failed: Migration checksum mismatch for migration version 1.8",
            "liquibase.exception.ValidationFailedException: Validation Failed:";
    Timeout 92
        hints "due to statement timeout", "maximum statement execution time", "exceeded time limit", "idle-in-transaction timeout", "max_execution_time", "statement timed out"
        pattern r"due to statement timeout|maximum statement execution time exceeded|operation exceeded time limit|idle-in-transaction timeout|statement timed out|max_execution_time (?:was )?exceeded"
        cause "a statement exceeded the time limit of the database"
        fix "make the statement faster or smaller; raise the limit for it only if it really needs longer"
        like "ERROR:  canceling statement due to statement timeout",
            "ERROR 3024 (HY000): Query execution was interrupted, maximum statement execution time exceeded";
}
