// CalibrateReport prints the results of `quire roofline calibrate`, as text or as JSON.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <string>
#include <string_view>

#include "roofline/calibrate/calibrate_operators.h"
#include "roofline/calibrate/calibrate_steps.h"
#include "roofline/model/latent_modules.h"
#include "roofline/model/mixed_launches.h"

namespace quire::roofline {

// Text is printed as it is added, JSON in finish(). Only one thread may use it.
class CalibrateReport {
 public:
  explicit CalibrateReport(bool as_json) : as_json_(as_json) {}

  void add(const FitReport& fit);
  void add(const MixedReport& mixed);
  // `what` names the formats of the weights and of the cache.
  void add(std::string_view what, const LatentModuleReport& latent);
  void add(const StepFitReport& steps, std::string_view model);
  void written_to(const std::string& path);
  void finish();

 private:
  bool as_json_;
  boost::json::array fits_, mixed_, latent_;
  boost::json::object out_;
};

}  // namespace quire::roofline
