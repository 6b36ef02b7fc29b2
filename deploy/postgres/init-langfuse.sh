#!/bin/sh
# Runs once, on an empty volume: Langfuse gets a database and a user of its own beside Gatehouse's.
set -eu
psql --set ON_ERROR_STOP=1 --username "$POSTGRES_USER" --dbname "$POSTGRES_DB" \
    --set password="$LANGFUSE_DATABASE_PASSWORD" <<'SQL'
CREATE USER langfuse PASSWORD :'password';
CREATE DATABASE langfuse OWNER langfuse;
SQL
