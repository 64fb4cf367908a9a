-- What Lua programs usually do: calls, tables, strings, closures, sorting. Prints a sum.
local size = tonumber(arg[1])

local function fibonacci(n)
  if n < 2 then return n end
  return fibonacci(n - 1) + fibonacci(n - 2)
end

local sum = fibonacci(24 + size)
local seed = 42
local function random(bound)
  seed = (seed * 1103515245 + 12345) % 2147483648
  return seed % bound
end
for _ = 1, 4 * size do
  local numbers, words, counts = {}, {}, {}
  for i = 1, 20000 do numbers[i] = random(1000000) end
  table.sort(numbers)
  for i = 1, 5000 do words[i] = "word" .. numbers[i * 4] % 997 end
  for word in table.concat(words, " "):gmatch("%a+%d+") do counts[word] = (counts[word] or 0) + 1 end
  for _, count in pairs(counts) do sum = sum + count end
  local functions = {}
  for i = 1, 2000 do functions[i] = function(x) return x * i + numbers[i] end end
  for i = 1, 2000 do sum = (sum + functions[i](i)) % 1000000007 end
  local rows = {}
  for i = 1, 60 do
    rows[i] = {}
    for k = 1, 60 do rows[i][k] = i * k % 7 end
  end
  for i = 1, 60 do
    for k = 1, 60 do
      local cell = 0
      for j = 1, 60 do cell = cell + rows[i][j] * rows[j][k] end
      sum = sum + cell
    end
  end
end
print(sum)
