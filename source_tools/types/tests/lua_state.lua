-- A state of all that Lua has, changed in each round, and a checkpoint after each. Prints a line a
-- round when it is durable, with a sum of the whole state, which plain Lua prints as well. The
-- argument of the script is the number of rounds (the global `rounds`).
local checkpoint = checkpoint or function() end
local rounds = 300

-- Order does not matter to it: where plain Lua has an object's key depends on its address.
local function hash(text)
  local h = 5381
  for i = 1, #text do h = (h * 33 ~ text:byte(i)) & 0xffffffffffff end
  return h
end

local seed = 7
local function random(bound)
  seed = (seed * 1103515245 + 12345) & 0x7fffffff
  return seed // 65536 % bound + 1
end

local Account = {}
Account.__index = Account
Account.__eq = function(a, b) return a.owner == b.owner end
Account.__add = function(a, b) return setmetatable({owner = a.owner, cents = a.cents + b.cents}, Account) end
Account.__tostring = function(a) return a.owner .. ":" .. a.cents end

local S = {
  by_string = {}, by_integer = {}, by_float = {}, by_table = {}, by_function = {}, by_thread = {},
  by_c_function = {[print] = 1, [string.rep] = 2, [math.floor] = 3, [pcall] = 4},
  by_userdata = {[io.stdout] = 1, [io.stderr] = 2},
  accounts = {}, counters = {}, generators = {}, texts = {}, protected = {}, weak = setmetatable({}, {__mode = "k"}),
  finalized = 0, numbers = {math.huge, -0.0, 0.1, math.maxinteger, math.mininteger},
}
local names = {}  -- of objects that are keys
local objects = {tables = {}, functions = {}, threads = {}}

local function counter(step)
  local count = 0
  local function add() count = count + step; return count end
  return add, function() return count end  -- both share the upvalue
end

local function generator(n)
  return coroutine.create(function()
    local a, b = 0, 1
    for i = 1, math.huge do
      local closed <close> = setmetatable({}, {__close = function() S.closed = (S.closed or 0) + 1 end})
      local ok, got = pcall(function() return coroutine.yield(a) end)
      a, b = b, (a + b + n) % 1000003
      if ok and got then a = a + got end
    end
  end)
end

local function sum()
  local all, weight = 0, 1
  local function add(what) all = (all + hash(tostring(what))) & 0xffffffffffff end
  for k, v in pairs(S.by_string) do add(k .. "=" .. v) end
  for k, v in pairs(S.by_integer) do add(k .. "=" .. v) end
  for k, v in pairs(S.by_float) do add(string.format("%a=%s", k, v)) end
  for _, kind in ipairs{"by_table", "by_function", "by_thread", "by_c_function", "by_userdata"} do
    local count = 0
    for k, v in pairs(S[kind]) do
      assert(S[kind][k] == v, kind)
      add(kind .. v)
      count = count + 1
    end
    add(kind .. count)
  end
  for kind, list in pairs(objects) do
    for i, object in ipairs(list) do
      assert(names[object] == kind .. i, "an object has lost its name")
      add(names[object])
    end
  end
  assert(S.by_c_function[print] == 1 and S.by_c_function[string.rep] == 2)
  assert(S.by_userdata[io.stdout] == 1 and S.by_userdata[io.stderr] == 2)
  for i, account in ipairs(S.accounts) do
    assert(getmetatable(account) == Account)
    add(i .. tostring(account))
  end
  for i, pair in ipairs(S.counters) do add(i .. ":" .. pair.get()) end
  for i, text in ipairs(S.texts) do add(i .. text) end
  for i, n in ipairs(S.numbers) do add(string.format("%s %s", math.type(n), n)) end
  for i, thread in ipairs(S.generators) do add(i .. coroutine.status(thread)) end
  for _, t in ipairs(objects.tables) do add("weak" .. S.weak[t]) end
  add(seed); add(S.closed); add(#S.protected); add(math.type(S.finalized))
  return all
end

local function change(round)
  for _ = 1, 20 do
    S.by_string["key" .. random(500)] = round
    S.by_integer[random(1000)] = random(1000)
    S.by_integer[-random(1000000)] = nil
    S.by_float[random(1000) / 7] = round
  end
  local t, f = {}, function() return round end
  local thread = coroutine.create(function(x) while true do x = coroutine.yield(x + round) end end)
  local i = random(60)
  for kind, object in pairs{tables = t, functions = f, threads = thread} do
    local list = objects[kind]
    local at = #list < 60 and #list + 1 or i
    local old = list[at]
    if old then names[old] = nil; S.by_table[old] = nil; S.by_function[old] = nil; S.by_thread[old] = nil end
    list[at] = object
    names[object] = kind .. at
    S["by_" .. kind:sub(1, -2)][object] = at
  end
  S.weak[t] = round
  setmetatable({}, {__gc = function() S.finalized = S.finalized + 1 end})
  S.accounts[random(30)] = nil
  for k = 1, 30 do
    S.accounts[k] = (S.accounts[k] or setmetatable({owner = "owner" .. k, cents = 0}, Account)) + {cents = random(99)}
  end
  for k = 1, 10 do
    if not S.counters[k] then local add, get = counter(k); S.counters[k] = {add = add, get = get} end
    S.counters[k].add()
    S.generators[k] = S.generators[k] or generator(k)
    local ok, value = coroutine.resume(S.generators[k], round % 3 == 0 and k or nil)
    assert(ok, value)
    S.numbers[5 + k] = value + 0.5
  end
  S.texts[random(20)] = ("long text " .. round .. " "):rep(random(40))
  for k = 1, 20 do S.texts[k] = S.texts[k] or "short" end
  local ok, message = pcall(error, {code = round})
  S.protected[round % 10 + 1] = message.code
  S.chunk = load("local n = ... return n * " .. round)
  assert(S.chunk(2) == 2 * round)
  S.numbers[3] = S.numbers[3] + math.random(1, 1)
  table.sort(S.texts, function(a, b) return #a < #b end)
  if round % 10 == 0 then collectgarbage(round % 20 == 0 and "generational" or "incremental") end
  if round % 7 == 0 then collectgarbage() end
end

local function acknowledged(round, was)
  checkpoint()
  local now = sum()
  assert(now == was, "the state is not the one of the checkpoint")
  print("round", round, now)
  io.stderr:write(string.format("%p\n", S))  -- where the state is
end

local round = 0
while round < rounds do
  round = round + 1
  change(round)
  local ok, message = pcall(acknowledged, round, sum())  -- a checkpoint in a protected call
  assert(ok, message)
  if round % 50 == 0 then  -- in the middle of a traversal
    local seen, left = {}, 0
    for k in pairs(S.by_table) do left = left + 1 end
    for k in pairs(S.by_table) do
      round = round + 1
      acknowledged(round, sum())
      assert(not seen[k], "an object is visited twice")
      seen[k] = true
      left = left - 1
    end
    assert(left == 0, "an object is not visited")
  end
end
print("finished", round, sum(), S.finalized > 0)
