# perdura_instrument(TARGET…): their code, C and C++, is compiled to report what it stores
# (docs/compiler.md), by Clang 19. What a shared library needs besides is its program's.

function(perdura_instrument)
  if(NOT PERDURA_REPORT_STORES)
    message(FATAL_ERROR "perdura_instrument: this Perdura was built without its compiler pass; "
      "configure it with -DPERDURA_COMPILER=ON")
  endif()
  get_property(languages GLOBAL PROPERTY ENABLED_LANGUAGES)
  foreach(language IN ITEMS C CXX)
    if(language IN_LIST languages AND NOT "${CMAKE_${language}_COMPILER_ID} ${CMAKE_${language}_COMPILER_VERSION}" MATCHES "^Clang 19\\.")
      message(FATAL_ERROR "perdura_instrument: CMAKE_${language}_COMPILER is "
        "${CMAKE_${language}_COMPILER_ID} ${CMAKE_${language}_COMPILER_VERSION}, and the pass fits "
        "Clang 19 alone; configure with -DCMAKE_C_COMPILER=clang-19 -DCMAKE_CXX_COMPILER=clang++-19")
    endif()
  endforeach()
  foreach(target IN LISTS ARGN)
    target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:C,CXX>:SHELL:-fplugin=${PERDURA_REPORT_STORES} -fpass-plugin=${PERDURA_REPORT_STORES}>")
    get_target_property(type ${target} TYPE)
    if(NOT type MATCHES "^(SHARED|MODULE)_LIBRARY$")
      target_link_libraries(${target} PRIVATE Perdura::compiled)
    endif()
  endforeach()
endfunction()
