library(testthat)
library(hedgerow)

rows <- function(n = 400) {
  set.seed(1)
  age <- round(runif(n, 0, 100))
  ward <- sample(c("north", "south", NA), n, replace = TRUE)
  score <- age / 100 + (ward %in% "south") * 0.5
  data.frame(
    age = as.integer(age), ward = ward, days = score * 10,
    back = ifelse(score > 0.7, "yes", "no"), hospital = rep(c("a", "b", "c", "d"), length.out = n)
  )
}

columns <- function() {
  schema(age = c(0, 110), ward = c("north", "south"), classes = c("no", "yes"))
}

quick <- function(data = rows(), ...) {
  fit(back ~ age + ward, data, columns(), epsilon = 20, method = "TreeClassifier", ...)
}

test_that("a formula fits a model that predicts", {
  data <- rows()
  model <- quick(data)
  found <- predict(model, data)
  expect_s3_class(model, "hedgerow")
  expect_equal(levels(found), c("no", "yes"))
  expect_gt(mean(found == data$back), 0.8)
  probabilities <- predict(model, data, type = "prob")
  expect_equal(unname(rowSums(probabilities)), rep(1, nrow(data)))
  expect_length(predict(model, data[1, ]), 1)
})

test_that("missing values of every type are missing", {
  model <- quick()
  empty <- data.frame(age = c(NA_integer_, NA), ward = c(NA_character_, NA))
  expect_equal(predict(model, empty, type = "prob")[1, ], predict(model, empty, type = "prob")[2, ])
  real <- data.frame(age = c(NA_real_, NaN), ward = factor(c(NA, NA)))
  expect_equal(predict(model, real, type = "prob"), predict(model, empty, type = "prob"))
})

test_that("the statement says the budget, and all sites are counted", {
  model <- quick(site = "hospital")
  said <- privacy(model)
  expect_equal(said$epsilon, 20)
  expect_output(print(said), "Privacy statement")
  expect_output(print(model), "epsilon = 20")
  expect_match(said$text, "simulated")
})

test_that("a number is predicted within its range", {
  data <- rows()
  known <- schema(age = c(0, 110), ward = c("north", "south"), target = c(0, 15))
  model <- fit(days ~ ., data[c("age", "ward", "days")], known, epsilon = 20)
  found <- predict(model, data)
  expect_true(all(found >= 0 & found <= 15))
  expect_gt(cor(found, data$days), 0.7)
})

test_that("files come back as they were", {
  model <- quick()
  path <- tempfile(fileext = ".json")
  save_model(model, path)
  again <- load_model(path)
  expect_equal(predict(again, rows(), type = "prob"), predict(model, rows(), type = "prob"))
  page <- tempfile(fileext = ".html")
  report(again, page)
  expect_gt(file.size(page), 1000)
  bill <- tempfile(fileext = ".json")
  export_model(again, bill, to = "cyclonedx")
  expect_match(paste(readLines(bill), collapse = ""), "hedgerow:epsilon")
})

test_that("PatientLevelPrediction's columns are there", {
  data <- rows(50)
  found <- plp_prediction(quick(), data, row_id = seq_len(50), outcome = data$back)
  expect_named(found, c("rowId", "value", "evaluationType", "outcomeCount"))
  expect_true(all(found$value >= 0 & found$value <= 1))
  expect_equal(found$outcomeCount, as.integer(data$back == "yes"))
  expect_equal(attr(found, "metaData")$modelType, "binary")
})

test_that("mistakes are said with what to do", {
  data <- rows()
  expect_error(fit(back ~ log(age), data, columns(), epsilon = 1), "Transform a column in the data")
  expect_error(fit(back ~ nothing, data, columns(), epsilon = 1), "have no column nothing")
  expect_error(fit(back ~ age, data, columns(), epsilon = 1), "no column ward of the schema")
  expect_error(fit(~age, data, columns(), epsilon = 1), "no left side")
  expect_error(schema(age = c(0, 110)), "neither of classes and target")
  expect_error(schema(age = 1, classes = c("a", "b")), "give a range")
  expect_error(fit(back ~ age + ward, data, columns(), epsilon = 1, method = "NoTree"), "method is 'NoTree'")
  expect_error(fit(back ~ age + ward, data, columns()), "both are public choices")
})
