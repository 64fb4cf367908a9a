-- Binary trees, closures and strings that live for a short time: what Lua allocates most. Prints a
-- sum. The argument is how deep the trees are.
local depth = tonumber(arg and arg[1] or 14)  -- a script of the durable host has no arguments

local function tree(levels)
  if levels == 0 then return {} end
  return {tree(levels - 1), tree(levels - 1)}
end
local function nodes(of)
  return of[1] and 1 + nodes(of[1]) + nodes(of[2]) or 1
end

local kept, sum = tree(depth), 0
for levels = 4, depth, 2 do
  for _ = 1, 1 << depth - levels + 4 do sum = sum + nodes(tree(levels)) end
end
for i = 1, 1 << depth do
  local words = {}
  for k = 1, 10 do words[k] = "word " .. i * k end
  local all = table.concat(words, " ")
  local length = function() return #all + i end
  sum = sum + length()
end
print(sum + nodes(kept))
