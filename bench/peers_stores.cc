#include "peers_stores.hpp"

#include <db.h>
#include <fcntl.h>
#include <lmdb.h>
#include <rocksdb/db.h>
#include <rocksdb/options.h>
#include <rocksdb/table.h>
#include <sqlite3.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <stdexcept>
#include <thread>
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
  PerduraTable(const std::string& path, const Load& load)
      : durability_(load.durability),
        store_(open(path, load)),
        index_(store_.root<Index>("table")) {
    if (durability_ == Durability::kPeriodic)
      store_.checkpoint_every(std::chrono::milliseconds(kPeriodMs));
  }
  ~PerduraTable() override { store_.close(); }

  void warm_up() override { bench::warm_up(store_); }
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

  static perdura::Store open(const std::string& path, const Load& load) {
    Options options;
    options.tracking = Tracking::kReported;
    return open_store("file:" + path, options, load.background_cpu);
  }

  Durability durability_;
  perdura::Store store_;
  Index& index_;
};

// --- LMDB ---------------------------------------------------------------------------------------

class LmdbTable final : public Table {
 public:
  /// `flags`: MDB_WRITEMAP, or none.
  LmdbTable(const std::string& path, const Load& load, unsigned flags)
      : durability_(load.durability), path_(path) {
    constexpr std::size_t kMapBytes = 16 * kGiB;
    check(mdb_env_create(&env_));
    check(mdb_env_set_mapsize(env_, kMapBytes));
    check(mdb_env_open(env_, path.c_str(), MDB_NOSUBDIR | MDB_NORDAHEAD | MDB_NOMEMINIT | flags,
                       0644));
    begin(transaction_);
    check(mdb_dbi_open(transaction_, nullptr, MDB_INTEGERKEY | MDB_CREATE, &table_));
    commit(transaction_);
  }
  ~LmdbTable() override {
    if (transaction_ != nullptr) mdb_txn_abort(transaction_);
    mdb_env_close(env_);
  }

  /// A page at the end of the file would be a block to be found for it, and a new size, with every
  /// commit that has one.
  void warm_up() override {
    extend(durability_ == Durability::kEveryInsert ? 64 * kMiB : 512 * kMiB);
  }

  void insert(std::uint64_t key, const Value& value) override {
    if (durability_ == Durability::kEveryInsert) {
      // Of several writers LMDB has all but one wait.
      MDB_txn* transaction = nullptr;
      begin(transaction);
      put(transaction, key, value);
      commit(transaction);
    } else {
      if (transaction_ == nullptr) begin(transaction_);
      put(transaction_, key, value);
    }
  }
  void make_durable() override {
    if (transaction_ != nullptr) commit(transaction_);
  }

  std::uint64_t count() override {
    MDB_stat stat;
    check(mdb_env_stat(env_, &stat));
    return stat.ms_entries;
  }
  bool holds(std::uint64_t key, const Value& value) override {
    if (transaction_ == nullptr) begin(transaction_);
    MDB_val k{sizeof key, &key}, v{};
    return mdb_get(transaction_, table_, &k, &v) == 0 && v.mv_size == sizeof value &&
           std::memcmp(v.mv_data, &value, sizeof value) == 0;
  }

 private:
  static void check(int code) {
    if (code != 0) fail("LMDB", mdb_strerror(code));
  }
  void begin(MDB_txn*& transaction) { check(mdb_txn_begin(env_, nullptr, 0, &transaction)); }
  void commit(MDB_txn*& transaction) { check(mdb_txn_commit(std::exchange(transaction, nullptr))); }
  void put(MDB_txn* transaction, std::uint64_t key, const Value& value) {
    MDB_val k{sizeof key, &key}, v{sizeof value, const_cast<Value*>(&value)};
    check(mdb_put(transaction, table_, &k, &v, 0));
  }

  /// Writes behind the last page, which LMDB never looks at. In small pieces: large ones would be
  /// large pages in the cache, and a store through the map makes all of such a page dirty.
  void extend(std::size_t bytes) {
    MDB_stat stat;
    MDB_envinfo info;
    check(mdb_env_stat(env_, &stat));
    check(mdb_env_info(env_, &info));
    const int file = ::open(path_.c_str(), O_WRONLY | O_CLOEXEC);
    const std::array<std::byte, kPageBytes> zeros{};
    bool written = file >= 0;
    for (std::size_t at = (info.me_last_pgno + 1) * stat.ms_psize; written && at < bytes;
         at += zeros.size())
      written = ::pwrite(file, zeros.data(), zeros.size(), static_cast<off_t>(at)) ==
                static_cast<ssize_t>(zeros.size());
    written = written && ::fsync(file) == 0;
    if (file >= 0) ::close(file);
    if (!written) fail("LMDB", "cannot extend its file");
  }

  Durability durability_;
  std::string path_;
  MDB_env* env_ = nullptr;
  MDB_dbi table_ = 0;
  MDB_txn* transaction_ = nullptr;  ///< the one of the last 64 ms
};

// --- RocksDB ------------------------------------------------------------------------------------

class RocksTable final : public Table {
 public:
  enum class Pipelined { kNo, kYes };

  RocksTable(const std::string& path, const Load& load, Pipelined pipelined)
      : durability_(load.durability) {
    const PinnedScope background(load.background_cpu);
    rocksdb::DB* db = nullptr;
    check(rocksdb::DB::Open(options(load, pipelined), path, &db));
    db_.reset(db);
    write_.sync = durability_ == Durability::kEveryInsert;
    if (durability_ == Durability::kPeriodic)
      flusher_ = std::jthread([this](const std::stop_token& stop) { flush_periodically(stop); });
    else if (db_->GetDBOptions().recycle_log_file_num == 0)
      fail("RocksDB", "does not recycle its logs");  // it says so nowhere else
  }

  /// Fills logs and gives them up, until all that follow are written over such a one.
  void warm_up() override {
    if (durability_ == Durability::kPeriodic) return;
    const std::string filler(kLogBytes + kMiB, '\0');
    for (std::size_t log = 0; log < 2 * kRecycledLogs; ++log) {
      check(db_->Put({}, "filler", filler));
      check(db_->Flush({}));
    }
    check(db_->Delete({}, "filler"));
    check(db_->Flush({}));
    check(db_->CompactRange({}, nullptr, nullptr));
  }

  void insert(std::uint64_t key, const Value& value) override {
    check(db_->Put(write_, slice(key), slice(value)));
  }
  void make_durable() override {}  // its own thread does it
  void finish() override { check(db_->FlushWAL(true)); }

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
  /// Of log, and of the memtable that goes with it: more than a run inserts one by one.
  static constexpr std::size_t kLogBytes = 16 * kMiB;
  static constexpr std::size_t kRecycledLogs = 3;

  static rocksdb::Options options(const Load& load, Pipelined pipelined) {
    rocksdb::Options options;
    options.create_if_missing = true;
    options.compression = rocksdb::kNoCompression;
    options.max_background_jobs = 2;
    options.allow_concurrent_memtable_write = load.writers > 1;  // dearer for a single one
    options.enable_pipelined_write = pipelined == Pipelined::kYes;
    options.avoid_flush_during_recovery = true;
    // With another one logs are not recycled: each would grow with every insert, which is durable
    // a good deal later than what is written over an older log.
    options.wal_recovery_mode = rocksdb::WALRecoveryMode::kSkipAnyCorruptedRecords;
    if (load.durability == Durability::kEveryInsert) {
      options.write_buffer_size = kLogBytes;
      options.recycle_log_file_num = kRecycledLogs;
    } else {
      options.write_buffer_size = 256 * kMiB;
      options.max_write_buffer_number = 4;
      options.manual_wal_flush = true;
    }
    return options;
  }

  /// The writer goes on meanwhile. A flush that fails stops the database for good, so finish() has
  /// that failure as well.
  void flush_periodically(const std::stop_token& stop) {
    std::mutex mutex;
    std::condition_variable_any wake;
    std::unique_lock lock(mutex);
    auto next = std::chrono::steady_clock::now();
    for (;;) {
      next += std::chrono::milliseconds(kPeriodMs);
      wake.wait_until(lock, stop, next, [] { return false; });
      if (stop.stop_requested()) return;
      db_->FlushWAL(true).PermitUncheckedError();
    }
  }

  static void check(const rocksdb::Status& status) {
    if (!status.ok()) fail("RocksDB", status.ToString().c_str());
  }
  template <class T>
  static rocksdb::Slice slice(const T& value) {
    return {reinterpret_cast<const char*>(&value), sizeof value};
  }

  Durability durability_;
  rocksdb::WriteOptions write_;
  std::unique_ptr<rocksdb::DB> db_;
  std::jthread flusher_;  ///< ends before the database is closed
};

// --- SQLite -------------------------------------------------------------------------------------

class SqliteTable final : public Table {
 public:
  SqliteTable(const std::string& path, const Load& load)
      : durability_(load.durability),
        log_bytes_(durability_ == Durability::kEveryInsert ? 64 * kMiB : 256 * kMiB) {
    // Who inserts is alone in it, by the mutex here.
    check(sqlite3_open_v2(path.c_str(), &db_,
                          SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX,
                          nullptr));
    run("PRAGMA locking_mode = EXCLUSIVE");
    run("PRAGMA journal_mode = WAL");
    run("PRAGMA synchronous = FULL");
    run("PRAGMA secure_delete = OFF");  // on in Debian
    run(fmt::format("PRAGMA cache_size = -{}", kCacheBytes / kKiB));
    // By default the table's pages are brought home every 4 MiB of log, most of them for one insert
    // each. The more log, the more inserts a page is brought home for; it stays bounded.
    run(fmt::format("PRAGMA wal_autocheckpoint = {}", log_bytes_ / kPageBytes));
    run("CREATE TABLE IF NOT EXISTS records (key INTEGER PRIMARY KEY, value BLOB)");
    insert_ = prepare("INSERT INTO records VALUES (?1, ?2)");
    begin_ = prepare("BEGIN");
    commit_ = prepare("COMMIT");
  }
  ~SqliteTable() override {
    for (sqlite3_stmt* statement : {insert_, begin_, commit_}) sqlite3_finalize(statement);
    sqlite3_close(db_);
  }

  /// Once around its log, which grows the first time: a log that it begins again is written over.
  void warm_up() override {
    constexpr std::size_t kPieceBytes = 4 * kMiB;
    run("CREATE TABLE filler (bytes BLOB)");
    for (std::size_t done = 0; done < log_bytes_; done += kPieceBytes) {
      run(fmt::format("INSERT INTO filler VALUES (zeroblob({}))", kPieceBytes));
      run("DELETE FROM filler");
    }
    run("DROP TABLE filler");
    run("PRAGMA wal_checkpoint(RESTART)");
  }

  void insert(std::uint64_t key, const Value& value) override {
    const std::lock_guard lock(mutex_);
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
  void run(const std::string& sql) const {
    check(sqlite3_exec(db_, sql.c_str(), nullptr, nullptr, nullptr));
  }
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
  std::size_t log_bytes_;
  std::mutex mutex_;
  sqlite3* db_ = nullptr;
  sqlite3_stmt *insert_ = nullptr, *begin_ = nullptr, *commit_ = nullptr;
  bool in_transaction_ = false;
};

// --- Berkeley DB --------------------------------------------------------------------------------

class BerkeleyTable final : public Table {
 public:
  BerkeleyTable(const std::string& path, const Load& load)
      : durability_(load.durability), has_locks_(load.writers > 1) {
    fs::create_directories(path);
    check(db_env_create(&env_, 0));
    check(env_->set_cachesize(env_, kCacheBytes / kGiB, kCacheBytes % kGiB, 1));
    check(env_->set_lg_bsize(env_, 32 * kMiB));
    check(env_->set_lg_max(env_, 128 * kMiB));
    check(env_->log_set_config(env_, DB_LOG_AUTO_REMOVE, 1));
    // Written before, the log has its blocks when an insert waits for it. Where it is flushed every
    // 64 ms to write it twice would cost more than that.
    if (durability_ == Durability::kEveryInsert) check(env_->log_set_config(env_, DB_LOG_ZERO, 1));
    // Locks of pages, so that several writers are flushed together. A single one needs none.
    if (has_locks_) check(env_->set_lk_detect(env_, DB_LOCK_DEFAULT));
    check(env_->open(env_, path.c_str(),
                     DB_CREATE | DB_PRIVATE | DB_INIT_MPOOL | DB_INIT_LOG | DB_INIT_TXN |
                         DB_RECOVER | (has_locks_ ? DB_INIT_LOCK | DB_THREAD : 0),
                     0644));
    check(db_create(&db_, env_, 0));
    check(db_->open(db_, nullptr, "records.db", nullptr, DB_BTREE,
                    DB_CREATE | DB_AUTO_COMMIT | (has_locks_ ? DB_THREAD : 0), 0644));
  }
  ~BerkeleyTable() override {
    if (transaction_ != nullptr) transaction_->abort(transaction_);
    db_->close(db_, 0);
    env_->close(env_, 0);
  }

  /// Its log was made whole when it was opened.
  void warm_up() override { check(env_->log_flush(env_, nullptr)); }

  void insert(std::uint64_t key, const Value& value) override {
    DBT k = entry(key), v = entry(value);
    if (durability_ == Durability::kEveryInsert) {
      // A transaction by itself. Who met another one's locks in a circle begins again.
      int code = 0;
      do code = db_->put(db_, nullptr, &k, &v, 0);
      while (code == DB_LOCK_DEADLOCK);
      check(code);
      return;
    }
    if (transaction_ == nullptr) check(env_->txn_begin(env_, nullptr, &transaction_, 0));
    check(db_->put(db_, transaction_, &k, &v, 0));
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
  bool has_locks_;
  DB_ENV* env_ = nullptr;
  DB* db_ = nullptr;
  DB_TXN* transaction_ = nullptr;  ///< the one of the last 64 ms
};

template <class T, auto... kWays>
std::unique_ptr<Table> open_table(const std::string& path, const Load& load) {
  return std::make_unique<T>(path, load, kWays...);
}

using Pipelined = RocksTable::Pipelined;

const std::array<Store, 5> kPeers = {{
    {"lmdb",
     "MDB_INTEGERKEY, one transaction an insert, commits synced (the default), a file of 64 MiB "
     "that was written before",
     "its own lock of writers",
     "MDB_INTEGERKEY, one transaction in 64 ms, commits synced, a file of 512 MiB that was written "
     "before",
     open_table<LmdbTable, 0u>},
    {"lmdb_writemap", "the same with MDB_WRITEMAP", "its own lock of writers",
     "the same with MDB_WRITEMAP", open_table<LmdbTable, unsigned{MDB_WRITEMAP}>},
    {"rocksdb",
     "WriteOptions::sync, no compression, 16 MiB memtables, recycled logs, for which it needs "
     "kSkipAnyCorruptedRecords",
     "allow_concurrent_memtable_write",
     "manual_wal_flush and FlushWAL(sync) every 64 ms by a thread of its own, no compression, 256 "
     "MiB memtables",
     open_table<RocksTable, Pipelined::kNo>},
    {"sqlite",
     "WAL of 64 MiB before its pages are brought home, written over, synchronous=FULL, exclusive "
     "locking, integer primary key, prepared statement, 2 GiB cache",
     "a mutex around it", "the same with a WAL of 256 MiB, one transaction in 64 ms",
     open_table<SqliteTable>},
    {"berkeley_db",
     "private environment, btree, DB_AUTO_COMMIT and synced, DB_LOG_ZERO, no locking, 32 MiB log "
     "buffer, 2 GiB cache",
     "DB_INIT_LOCK, DB_THREAD, deadlock detection",
     "private environment, btree, one transaction in 64 ms with DB_TXN_SYNC, no locking, 32 MiB "
     "log buffer, 2 GiB cache",
     open_table<BerkeleyTable>},
}};

/// Log and memtable are two stages, in which several writers can be at a time.
const Store kPipelinedRocks = {"rocksdb_pipelined", "the same with enable_pipelined_write",
                               "allow_concurrent_memtable_write", "not measured",
                               open_table<RocksTable, Pipelined::kYes>};

}  // namespace

std::string Store::settings(const Load& load) const {
  if (load.durability == Durability::kPeriodic) return settings_periodic;
  if (load.writers == 1) return settings_every_insert;
  return fmt::format("{}; several writers: {}", settings_every_insert, settings_several_writers);
}

const Store kPerdura = {
    "perdura",
    "file: store, B+-tree of pointers to values in the heap, Tracking::kReported, checkpoint() "
    "after each insert",
    "not measured", "the same, checkpoint_every(64 ms)", open_table<PerduraTable>};

std::vector<const Store*> peers_of(int writers) {
  std::vector<const Store*> all;
  for (const Store& peer : kPeers) all.push_back(&peer);
  if (writers > 1) all.push_back(&kPipelinedRocks);
  return all;
}

}  // namespace perdura::bench::peers
