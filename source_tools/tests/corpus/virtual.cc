// Virtual calls: those that the compiler binds, and those that it cannot.
#include <perdura/compat/simpo.hpp>

namespace corpus_virtual {

int drawn = 0;

struct Shape {
  explicit Shape(int size) : size(size) {}
  virtual ~Shape() = default;
  virtual int area() const { return size; }
  int doubled() const {
    return 2 * area();  // because: asks_local_by_base_method virtual
  }
  int size;
};
struct Square : Shape {
  using Shape::Shape;
  int area() const override { return size * size; }
};
struct Disc final : Shape {
  using Shape::Shape;
  int area() const override { return 3 * size * size; }
};
struct Noted : Shape {
  using Shape::Shape;
  int area() const final {
    return size + ++drawn;  // because: asks_final_method global
  }
};
int area_of(const Shape& shape) {
  return shape.area();  // because: asks_local_by_helper virtual
}
int area_of_disc(const Disc& disc) { return disc.area(); }
int area_of_noted(const Noted& noted) { return noted.area(); }

class Canvas : public POBase {
 public:
  explicit Canvas(int poid = 0) : POBase(64 * sizeof(int), poid) {}

  virtual void draw_step() {  // expect: deferrable
    ++ints()[0];
  }
  void draws_step() {  // expect: instant
    draw_step();  // because: draws_step virtual
  }
  void draws_qualified_step() {  // expect: deferrable
    Canvas::draw_step();
  }
  void calls_by_pointer_to_virtual() {  // expect: instant
    void (Canvas::*p)() = &Canvas::draw_step;
    (this->*p)();  // because: calls_by_pointer_to_virtual virtual
  }
  void draws_hidden_step() {  // expect: instant
    hidden_step();  // because: draws_hidden_step virtual
  }
  void asks_local_shape() {  // expect: deferrable
    const Square square(3);
    ints()[0] = square.area();
  }
  void asks_temporary_shape() {  // expect: deferrable
    ints()[0] = Square(4).area();
  }
  void asks_local_by_reference() {  // expect: instant
    const Square square(3);
    const Shape& shape = square;
    ints()[0] = shape.area();  // because: asks_local_by_reference virtual
  }
  void asks_qualified_by_reference() {  // expect: deferrable
    const Square square(3);
    const Shape& shape = square;
    ints()[0] = shape.Shape::area();
  }
  void asks_local_by_helper() {  // expect: instant
    const Square square(3);
    ints()[0] = area_of(square);
  }
  void asks_local_by_base_method() {  // expect: instant
    const Square square(3);
    ints()[0] = square.doubled();
  }
  void asks_final_class_by_helper() {  // expect: deferrable
    const Disc disc(3);
    ints()[0] = area_of_disc(disc);
  }
  void asks_final_method() {  // expect: instant
    const Noted noted(3);
    ints()[0] = area_of_noted(noted);
  }
  void slices_to_base() {  // expect: deferrable
    const Square square(3);
    const Shape shape = square;
    ints()[0] = shape.area();
  }
  void casts_to_base() {  // expect: deferrable
    auto* base = dynamic_cast<POBase*>(this);
    ints()[0] = base != nullptr;
  }
  int level() const {  // expect: instant; because: level returns
    return height();  // because: level virtual
  }

 protected:
  int* ints() { return static_cast<int*>(poroot); }
  virtual int height() const { return 3; }
  virtual void draw_edge() { ints()[2] = 0; }

 private:
  virtual void hidden_step() { ++ints()[1]; }
};

class Poster final : public Canvas {
 public:
  explicit Poster(int poid = 0) : Canvas(poid) {}
  void draws_final_step() {  // expect: deferrable
    draw_step();
  }
  void draws_own_step() {  // expect: deferrable
    draw_step();
    Poster::draw_step();
  }
  int top() const {  // expect: read
    return height();
  }
  void draws_as_canvas() {  // expect: instant
    Canvas* canvas = this;
    canvas->draw_step();  // because: draws_as_canvas virtual
  }
};

class Sketch : public Canvas {
 public:
  explicit Sketch(int poid = 0) : Canvas(poid) {}
  void draw_edge() final { ++ints()[2]; }  // expect: deferrable
  void draws_sealed_edge() {  // expect: deferrable
    draw_edge();
  }
};

struct Plan {
  virtual ~Plan() = default;
  virtual void prepare(int* cells) = 0;
  void run(int* cells) {
    prepare(cells);  // because: runs_plan virtual
  }
};
struct ShortPlan final : Plan {
  void prepare(int* cells) override { cells[0] = 1; }
};

template <class Derived>
class Stepper {
 protected:
  void step_all(int n) {
    for (int i = 0; i < n; ++i) static_cast<Derived*>(this)->step(i);
  }
};
class Marcher : public POBase, private Stepper<Marcher> {
 public:
  explicit Marcher(int poid = 0) : POBase(64 * sizeof(int), poid) {}
  void steps_by_crtp() {  // expect: deferrable
    step_all(8);
  }
  void runs_plan() {  // expect: instant
    ShortPlan plan;
    plan.run(ints());
  }
  void prepares_plan() {  // expect: deferrable
    ShortPlan plan;
    plan.prepare(ints());
  }

 private:
  friend class Stepper<Marcher>;
  void step(int i) { ints()[i] = i; }
  int* ints() { return static_cast<int*>(poroot); }
};
class Spender : public POBase, private Stepper<Spender> {
 public:
  explicit Spender(int poid = 0) : POBase(64 * sizeof(int), poid) {}
  void spends_by_crtp() {  // expect: instant
    step_all(8);
  }

 private:
  friend class Stepper<Spender>;
  void step(int i) {
    drawn += i;  // because: spends_by_crtp global
  }
};

}  // namespace corpus_virtual
