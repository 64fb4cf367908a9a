// An order book in a map: what is on offer at each price, and what is wanted there. Commands come
// on stdin, a line each:
//
//   buy PRICE QUANTITY     at that price or a lower one; what is not on offer waits in the book
//   sell PRICE QUANTITY    at that price or a higher one; likewise
//   cancel PRICE           what waits at that price
//   show                   the book
//
// An answer ends with a line "ok" or "error: …". What was answered is durable, in orders.pd: the
// program may be killed at any moment, and goes on from there. orders_in_memory.cc is the same
// program without the lines that make it so, which are marked with a D.
#include <algorithm>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <iterator>
#include <map>
#include <sstream>
#include <string>

#include <perdura/perdura.hpp>  // D

// A book is a map of prices to quantities: on offer where they are positive, wanted where they are
// negative. Who wants to buy pays less than who sells asks for, else they would have met.

/// Takes what is on offer up to the price, the cheapest first; what is left waits.
void buy(auto& book, long price, long quantity) {
  auto offer = std::find_if(book.begin(), book.end(), [](auto& each) { return each.second > 0; });
  while (quantity != 0 && offer != book.end() && offer->first <= price) {
    const long traded = std::min(quantity, offer->second);
    std::cout << "bought " << traded << " at " << offer->first << '\n';
    quantity -= traded;
    offer->second -= traded;
    if (offer->second == 0) offer = book.erase(offer);
  }
  if (quantity != 0) book[price] -= quantity;
}

/// Gives to who wants to buy at the price or above, the highest first; what is left waits.
void sell(auto& book, long price, long quantity) {
  auto above = std::find_if(book.begin(), book.end(), [](auto& each) { return each.second > 0; });
  while (quantity != 0 && above != book.begin() && std::prev(above)->first >= price) {
    const auto wish = std::prev(above);
    const long traded = std::min(quantity, -wish->second);
    std::cout << "sold " << traded << " at " << wish->first << '\n';
    quantity -= traded;
    wish->second += traded;
    if (wish->second == 0) above = book.erase(wish);
  }
  if (quantity != 0) book[price] += quantity;
}

/// "ok", or what is wrong.
std::string execute(auto& book, const std::string& line) {
  std::istringstream words(line);
  std::string command;
  long price = 0, quantity = 0;
  words >> command;
  if (command == "show") {
    for (const auto& [at, count] : book)
      std::cout << (count > 0 ? "offered " : "wanted ") << std::abs(count) << " at " << at << '\n';
    return "ok";
  }
  if (command == "cancel" && words >> price)
    return book.erase(price) != 0 ? "ok" : "error: nothing waits at that price";
  if ((command != "buy" && command != "sell") || !(words >> price >> quantity) || quantity <= 0)
    return "error: buy PRICE QUANTITY, sell PRICE QUANTITY, cancel PRICE, show";
  if (command == "buy") buy(book, price, quantity);
  else sell(book, price, quantity);
  return "ok";
}

int main() try {
  auto store = perdura::Store::open("orders.pd");             // D
  auto& book = store.root<perdura::map<long, long>>("book");  // D
  for (std::string line; std::getline(std::cin, line);) {
    const std::string answer = execute(book, line);
    store.checkpoint();  // D
    std::cout << answer << std::endl;
  }
} catch (const std::exception& error) {
  std::cerr << "orders: " << error.what() << '\n';
  return 1;
}
