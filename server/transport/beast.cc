// The compiled parts of asio and Beast, once for the program.
#include <boost/asio/impl/src.hpp>
#include <boost/beast/src.hpp>
