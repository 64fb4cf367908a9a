#include "peers_stores.hpp"

#include <db.h>
#include <lmdb.h>
#include <rocksdb/db.h>
#include <rocksdb/options.h>
#include <rocksdb/table.h>
#include <sqlite3.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

#include <perdura/perdura.hpp>
#include <perdura/structures/bplus_tree.hpp>

#include "measure.hpp"
#include "stores.hpp"

namespace perdura::bench::peers {

namespace {

namespace fs = std::filesystem;

/// Enough for every database to keep its whole table in memory, as Perdura does.
constexpr std::size_t kCacheBytes = 2 * kGiB;

[[noreturn]] void fail(const char* store, const char* problem) {
  throw std::runtime_error(fmt::format("{}: {}", store, problem));
}

// --- Perdura ------------------------------------------------------------------------------------

class PerduraTable final : public Table {
 public:
  PerduraTable(const std::string& path, Durability durability)
      : durability_(durability), store_(open(path)), index_(store_.root<Index>("table")) {
    if (durability == Durability::kPeriodic)
      store_.checkpoint_every(std::chrono::milliseconds(kPeriodMs));
  }
  ~PerduraTable() override { store_.close(); }

  void insert(std::uint64_t key, const Value& value) override {
    {
      const Operation operation = store_.operation();
      auto* copy = ::new (operation.allocate(sizeof(Value), alignof(Value))) Value(value);
      index_.insert(operation, key, copy);
    }
    if (durability_ == Durability::kEveryInsert) store_.checkpoint();
  }
  void make_durable() override {}  // checkpoint_every does it
  void finish() override { store_.checkpoint(); }

  std::uint64_t count() override { return index_.size(); }
  bool holds(std::uint64_t key, const Value& value) override {
    const auto found = index_.find(key);
    return found.has_value() && **found == value;
  }

 private:
  using Index = structures::BPlusTree<Value*>;

  static perdura::Store open(const std::string& path) {
    Options options;
    options.tracking = Tracking::kReported;
    return open_store("file:" + path, options);
  }

  Durability durability_;
  perdura::Store store_;
  Index& index_;
};

// --- LMDB ---------------------------------------------------------------------------------------

class LmdbTable final : public Table {
 public:
  LmdbTable(const std::string& path, Durability durability) : durability_(durability) {
    constexpr std::size_t kMapBytes = 16 * kGiB;
    check(mdb_env_create(&env_));
    check(mdb_env_set_mapsize(env_, kMapBytes));
    check(mdb_env_open(env_, path.c_str(), MDB_NOSUBDIR | MDB_NORDAHEAD, 0644));
    begin();
    check(mdb_dbi_open(transaction_, nullptr, MDB_INTEGERKEY | MDB_CREATE, &table_));
    commit();
  }
  ~LmdbTable() override {
    if (transaction_ != nullptr) mdb_txn_abort(transaction_);
    mdb_env_close(env_);
  }

  void insert(std::uint64_t key, const Value& value) override {
    if (transaction_ == nullptr) begin();
    MDB_val k{sizeof key, &key}, v{sizeof value, const_cast<Value*>(&value)};
    check(mdb_put(transaction_, table_, &k, &v, 0));
    if (durability_ == Durability::kEveryInsert) commit();
  }
  void make_durable() override {
    if (transaction_ != nullptr) commit();
  }

  std::uint64_t count() override {
    MDB_stat stat;
    check(mdb_env_stat(env_, &stat));
    return stat.ms_entries;
  }
  bool holds(std::uint64_t key, const Value& value) override {
    if (transaction_ == nullptr) begin();
    MDB_val k{sizeof key, &key}, v{};
    return mdb_get(transaction_, table_, &k, &v) == 0 && v.mv_size == sizeof value &&
           std::memcmp(v.mv_data, &value, sizeof value) == 0;
  }

 private:
  static void check(int code) {
    if (code != 0) fail("LMDB", mdb_strerror(code));
  }
  void begin() { check(mdb_txn_begin(env_, nullptr, 0, &transaction_)); }
  void commit() { check(mdb_txn_commit(std::exchange(transaction_, nullptr))); }

  Durability durability_;
  MDB_env* env_ = nullptr;
  MDB_dbi table_ = 0;
  MDB_txn* transaction_ = nullptr;
};

// --- RocksDB ------------------------------------------------------------------------------------

class RocksTable final : public Table {
 public:
  RocksTable(const std::string& path, Durability durability) {
    const PinnedScope background(kBackgroundCpu);
    rocksdb::DB* db = nullptr;
    check(rocksdb::DB::Open(options(durability), path, &db));
    db_.reset(db);
    write_.sync = durability == Durability::kEveryInsert;
  }

  void insert(std::uint64_t key, const Value& value) override {
    check(db_->Put(write_, slice(key), slice(value)));
  }
  void make_durable() override { check(db_->FlushWAL(true)); }

  std::uint64_t count() override {
    std::uint64_t count = 0;
    const std::unique_ptr<rocksdb::Iterator> it(db_->NewIterator({}));
    for (it->SeekToFirst(); it->Valid(); it->Next()) ++count;
    check(it->status());
    return count;
  }
  bool holds(std::uint64_t key, const Value& value) override {
    std::string found;
    return db_->Get({}, slice(key), &found).ok() && slice(value) == found;
  }

 private:
  static rocksdb::Options options(Durability durability) {
    rocksdb::Options options;
    options.create_if_missing = true;
    options.compression = rocksdb::kNoCompression;
    options.max_background_jobs = 2;
    options.allow_concurrent_memtable_write = false;  // one writer
    options.avoid_flush_during_recovery = true;
    if (durability == Durability::kEveryInsert) {
      // Small tables, so that logs are soon used again: overwriting one is durable sooner than
      // growing one.
      options.write_buffer_size = 4 * kMiB;
      options.recycle_log_file_num = 4;
    } else {
      options.write_buffer_size = 256 * kMiB;
      options.max_write_buffer_number = 4;
      options.manual_wal_flush = true;
    }
    return options;
  }
  static void check(const rocksdb::Status& status) {
    if (!status.ok()) fail("RocksDB", status.ToString().c_str());
  }
  template <class T>
  static rocksdb::Slice slice(const T& value) {
    return {reinterpret_cast<const char*>(&value), sizeof value};
  }

  rocksdb::WriteOptions write_;
  std::unique_ptr<rocksdb::DB> db_;
};

// --- SQLite -------------------------------------------------------------------------------------

class SqliteTable final : public Table {
 public:
  SqliteTable(const std::string& path, Durability durability) : durability_(durability) {
    check(sqlite3_open(path.c_str(), &db_));
    run("PRAGMA locking_mode = EXCLUSIVE");
    run("PRAGMA journal_mode = WAL");
    run("PRAGMA synchronous = FULL");
    run(fmt::format("PRAGMA cache_size = -{}", kCacheBytes / kKiB).c_str());
    run("CREATE TABLE IF NOT EXISTS records (key INTEGER PRIMARY KEY, value BLOB)");
    insert_ = prepare("INSERT INTO records VALUES (?1, ?2)");
    begin_ = prepare("BEGIN");
    commit_ = prepare("COMMIT");
  }
  ~SqliteTable() override {
    for (sqlite3_stmt* statement : {insert_, begin_, commit_}) sqlite3_finalize(statement);
    sqlite3_close(db_);
  }

  void insert(std::uint64_t key, const Value& value) override {
    if (durability_ == Durability::kPeriodic && !in_transaction_) {
      step(begin_);
      in_transaction_ = true;
    }
    sqlite3_bind_int64(insert_, 1, static_cast<sqlite3_int64>(key));
    sqlite3_bind_blob(insert_, 2, value.data(), kValueBytes, SQLITE_STATIC);
    step(insert_);
  }
  void make_durable() override {
    if (in_transaction_) step(commit_);
    in_transaction_ = false;
  }

  std::uint64_t count() override {
    sqlite3_stmt* statement = prepare("SELECT count(*) FROM records");
    sqlite3_step(statement);
    const auto count = static_cast<std::uint64_t>(sqlite3_column_int64(statement, 0));
    sqlite3_finalize(statement);
    return count;
  }
  bool holds(std::uint64_t key, const Value& value) override {
    sqlite3_stmt* statement = prepare("SELECT 1 FROM records WHERE key = ?1 AND value = ?2");
    sqlite3_bind_int64(statement, 1, static_cast<sqlite3_int64>(key));
    sqlite3_bind_blob(statement, 2, value.data(), kValueBytes, SQLITE_STATIC);
    const bool found = sqlite3_step(statement) == SQLITE_ROW;
    sqlite3_finalize(statement);
    return found;
  }

 private:
  void check(int code) const {
    if (code != SQLITE_OK) fail("SQLite", sqlite3_errmsg(db_));
  }
  void run(const char* sql) const { check(sqlite3_exec(db_, sql, nullptr, nullptr, nullptr)); }
  sqlite3_stmt* prepare(const char* sql) const {
    sqlite3_stmt* statement = nullptr;
    check(sqlite3_prepare_v3(db_, sql, -1, SQLITE_PREPARE_PERSISTENT, &statement, nullptr));
    return statement;
  }
  void step(sqlite3_stmt* statement) const {
    if (sqlite3_step(statement) != SQLITE_DONE) fail("SQLite", sqlite3_errmsg(db_));
    check(sqlite3_reset(statement));
  }

  Durability durability_;
  sqlite3* db_ = nullptr;
  sqlite3_stmt *insert_ = nullptr, *begin_ = nullptr, *commit_ = nullptr;
  bool in_transaction_ = false;
};

// --- Berkeley DB --------------------------------------------------------------------------------

class BerkeleyTable final : public Table {
 public:
  BerkeleyTable(const std::string& path, Durability durability) : durability_(durability) {
    fs::create_directories(path);
    check(db_env_create(&env_, 0));
    check(env_->set_cachesize(env_, kCacheBytes / kGiB, kCacheBytes % kGiB, 1));
    check(env_->set_lg_bsize(env_, 32 * kMiB));
    check(env_->set_lg_max(env_, 128 * kMiB));
    check(env_->log_set_config(env_, DB_LOG_AUTO_REMOVE, 1));
    check(env_->open(
        env_, path.c_str(),
        DB_CREATE | DB_PRIVATE | DB_INIT_MPOOL | DB_INIT_LOG | DB_INIT_TXN | DB_RECOVER, 0644));
    check(db_create(&db_, env_, 0));
    check(
        db_->open(db_, nullptr, "records.db", nullptr, DB_BTREE, DB_CREATE | DB_AUTO_COMMIT, 0644));
  }
  ~BerkeleyTable() override {
    if (transaction_ != nullptr) transaction_->abort(transaction_);
    db_->close(db_, 0);
    env_->close(env_, 0);
  }

  void insert(std::uint64_t key, const Value& value) override {
    if (transaction_ == nullptr) check(env_->txn_begin(env_, nullptr, &transaction_, 0));
    DBT k = entry(key), v = entry(value);
    check(db_->put(db_, transaction_, &k, &v, 0));
    if (durability_ == Durability::kEveryInsert) make_durable();
  }
  void make_durable() override {
    if (transaction_ == nullptr) return;
    DB_TXN* const transaction = std::exchange(transaction_, nullptr);
    check(transaction->commit(transaction, DB_TXN_SYNC));
  }

  std::uint64_t count() override {
    DB_BTREE_STAT* stat = nullptr;
    check(db_->stat(db_, nullptr, &stat, 0));
    const std::uint64_t count = stat->bt_nkeys;
    std::free(stat);
    return count;
  }
  bool holds(std::uint64_t key, const Value& value) override {
    DBT k = entry(key), v{};
    return db_->get(db_, nullptr, &k, &v, 0) == 0 && v.size == sizeof value &&
           std::memcmp(v.data, &value, sizeof value) == 0;
  }

 private:
  static void check(int code) {
    if (code != 0) fail("Berkeley DB", db_strerror(code));
  }
  template <class T>
  static DBT entry(const T& value) {
    DBT entry{};
    entry.data = const_cast<T*>(&value);
    entry.size = sizeof value;
    return entry;
  }

  Durability durability_;
  DB_ENV* env_ = nullptr;
  DB* db_ = nullptr;
  DB_TXN* transaction_ = nullptr;
};

template <class T>
std::unique_ptr<Table> open_table(const std::string& path, Durability durability) {
  return std::make_unique<T>(path, durability);
}

}  // namespace

const Store kPerdura = {
    "perdura",
    "file: store, B+-tree of pointers to values in the heap, Tracking::kReported, checkpoint() "
    "after each insert",
    "the same, checkpoint_every(64 ms)", open_table<PerduraTable>};

const std::array<Store, 4> kPeers = {{
    {"lmdb", "MDB_INTEGERKEY, one transaction an insert, commits synced (the default)",
     "MDB_INTEGERKEY, one transaction in 64 ms, commits synced", open_table<LmdbTable>},
    {"rocksdb", "WriteOptions::sync, no compression, recycled logs, 4 MiB memtables",
     "manual_wal_flush and FlushWAL(sync) every 64 ms, no compression, 256 MiB memtables",
     open_table<RocksTable>},
    {"sqlite", "WAL, synchronous=FULL, exclusive locking, integer primary key, prepared statement",
     "the same, one transaction in 64 ms", open_table<SqliteTable>},
    {"berkeley_db",
     "private environment, btree, one transaction an insert with DB_TXN_SYNC, no locking, 32 MiB "
     "log buffer, 2 GiB cache",
     "the same, one transaction in 64 ms", open_table<BerkeleyTable>},
}};

}  // namespace perdura::bench::peers
