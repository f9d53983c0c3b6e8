# An R face of the Python package hedgerow: no mechanism, no noise and no accounting is here.
# Values cross as lists and texts: reticulate reads arrays of some NumPy versions only.

SITE_ARGUMENT <- "site"
DEFAULT_METHODS <- c(classes = "BoostedTreesClassifier", number = "BoostedTreesRegressor")

python_module <- function() {
  if (!reticulate::py_module_available("hedgerow")) {
    stop(
      "the Python package hedgerow is not found by reticulate; install it with ",
      "`pip install hedgerow` and name that Python in the variable RETICULATE_PYTHON.",
      call. = FALSE
    )
  }
  reticulate::import("hedgerow", convert = FALSE)
}

# ------------------------------------------------------------------------------------------ schema
schema <- function(..., classes = NULL, target = NULL) {
  columns <- list(...)
  if (length(columns) == 0 || is.null(names(columns)) || any(names(columns) == "")) {
    stop("schema() has columns without a name; write schema(age = c(0, 110), ...).", call. = FALSE)
  }
  if (is.null(classes) == is.null(target)) {
    stop("schema() has ", if (is.null(classes)) "neither" else "both", " of classes and target; ",
      "give classes = c(...) or target = c(low, high).",
      call. = FALSE
    )
  }
  described <- Map(describe_column, names(columns), columns)
  python_module()$Schema(
    reticulate::py_dict(names(columns), unname(described)),
    classes = if (!is.null(classes)) as.list(as.character(classes)),
    target = if (!is.null(target)) reticulate::tuple(as.list(as.double(target)))
  )
}

describe_column <- function(name, values) {
  if (is.numeric(values) && length(values) == 2) {
    return(reticulate::tuple(as.list(as.double(values))))
  }
  if (is.character(values) && length(values) > 0) {
    return(as.list(values))
  }
  stop("column '", name, "' is declared as ", class(values)[1], " of length ", length(values),
    "; give a range c(low, high) or the categories as texts.",
    call. = FALSE
  )
}

# --------------------------------------------------------------------------------------------- fit
fit <- function(x, ...) UseMethod("fit")

fit.formula <- function(x, data, schema, epsilon, ..., site = NULL) {
  parts <- formula_parts(x, data)
  site_values <- if (is.character(site) && length(site) == 1) data[[site]] else site
  fitted <- fit.default(
    data[setdiff(parts$columns, site)], data[[parts$outcome]],
    schema = schema, epsilon = epsilon, ..., site = site_values
  )
  fitted$formula <- x
  fitted
}

fit.default <- function(x, y, schema, epsilon, delta = 1e-6, method = NULL, site = NULL, ...) {
  hedgerow <- python_module()
  if (missing(schema) || missing(epsilon)) {
    stop("schema or epsilon is missing; both are public choices that no default makes for you.",
      call. = FALSE
    )
  }
  is_number <- is.null(value_of(schema$classes))
  name <- if (is.null(method)) DEFAULT_METHODS[[if (is_number) "number" else "classes"]] else method
  if (!reticulate::py_has_attr(hedgerow, name)) {
    stop("method is '", name, "'; use the name of an estimator of hedgerow, such as ",
      "TreeClassifier or ForestRegressor.",
      call. = FALSE
    )
  }
  estimator <- hedgerow[[name]](schema = schema, epsilon = epsilon, delta = delta, ...)
  labels <- if (is_number) numbers(y) else texts(y)
  columns <- as_table(x, unlist(value_of(schema$names)))
  arguments <- list(columns, labels)
  if (!is.null(site)) arguments[[SITE_ARGUMENT]] <- texts(site)
  do.call(estimator$fit, arguments)
  as_model(estimator)
}

as_model <- function(estimator) {
  structure(list(estimator = estimator, formula = NULL), class = "hedgerow")
}

formula_parts <- function(formula, data) {
  if (length(formula) != 3) {
    stop("the formula has no left side; write outcome ~ age + ward, or outcome ~ .", call. = FALSE)
  }
  outcome <- all.vars(formula[[2]])
  columns <- all.vars(formula[[3]])
  if (identical(columns, ".")) columns <- setdiff(names(data), outcome)
  plain <- c(outcome, "+", columns, ".")
  strange <- setdiff(all.names(formula[-1]), plain)
  if (length(strange) > 0 || length(outcome) != 1) {
    stop("the formula uses ", paste(strange, collapse = ", "), "; name columns joined by +. ",
      "Transform a column in the data, and declare the range that it then has.",
      call. = FALSE
    )
  }
  missing_columns <- setdiff(c(outcome, columns), names(data))
  if (length(missing_columns) > 0) {
    stop("the data have no column ", paste(missing_columns, collapse = ", "), "; they have ",
      paste(names(data), collapse = ", "), ".",
      call. = FALSE
    )
  }
  list(outcome = outcome, columns = columns)
}

# Numbers go as doubles (an integer NA has no Python form), everything else as text; a missing text
# is the empty one, which hedgerow reads as missing.
as_table <- function(data, names) {
  absent <- setdiff(names, base::names(data))
  if (length(absent) > 0) {
    stop("the data have no column ", paste(absent, collapse = ", "), " of the schema.",
      call. = FALSE
    )
  }
  columns <- lapply(data[names], function(column) {
    if (is.numeric(column)) numbers(column) else texts(column)
  })
  arrow <- reticulate::import("pyarrow", convert = FALSE)
  arrow$table(reticulate::py_dict(names, unname(columns)))
}

texts <- function(values) {
  values <- as.character(values)
  values[is.na(values)] <- ""
  if (length(values) == 1) list(values) else values
}

numbers <- function(values) {
  values <- as.double(values)
  if (length(values) == 1) list(values) else values
}

value_of <- function(object) reticulate::py_to_r(object)

# ----------------------------------------------------------------------------------------- predict
predict.hedgerow <- function(object, newdata, type = c("response", "class", "prob"), ...) {
  type <- match.arg(type)
  estimator <- object$estimator
  rows <- as_table(newdata, unlist(value_of(estimator$schema_$names)))
  classes <- unlist(value_of(estimator$schema_$classes))
  if (is.null(classes)) {
    return(as.numeric(value_of(estimator$predict(rows)$tolist())))
  }
  cells <- unlist(value_of(estimator$predict_proba(rows)$tolist()))
  found <- matrix(cells, ncol = length(classes), byrow = TRUE, dimnames = list(NULL, classes))
  if (type == "prob") {
    return(found)
  }
  factor(classes[max.col(found, ties.method = "first")], levels = classes)
}

plp_prediction <- function(model, newdata, row_id, outcome = NULL, evaluation_type = "Test") {
  probabilities <- predict(model, newdata, type = "prob")
  if (ncol(probabilities) != 2) {
    stop("the model has ", ncol(probabilities), " classes; PatientLevelPrediction has two.",
      call. = FALSE
    )
  }
  found <- data.frame(
    rowId = row_id,
    value = probabilities[, 2],
    evaluationType = evaluation_type,
    stringsAsFactors = FALSE
  )
  if (!is.null(outcome)) {
    found$outcomeCount <- as.integer(as.character(outcome) == colnames(probabilities)[2])
  }
  attr(found, "metaData") <- list(
    modelType = "binary",
    predictionType = "binary",
    privacy = privacy(model)$guarantee_words
  )
  found
}

# -------------------------------------------------------------------------------- privacy, reports
privacy <- function(model) {
  statement <- model$estimator$privacy_
  facts <- value_of(statement$to_dict())
  facts$guarantee_words <- value_of(statement$summary)
  facts$text <- as.character(reticulate::py_str(statement))
  structure(facts, class = "hedgerow_privacy")
}

print.hedgerow_privacy <- function(x, ...) {
  cat(x$text, "\n", sep = "")
  invisible(x)
}

print.hedgerow <- function(x, ...) {
  name <- value_of(x$estimator$`__class__`$`__name__`)
  cat(name, ": ", value_of(x$estimator$privacy_$summary), "\n", sep = "")
  if (!is.null(x$formula)) cat("formula: ", deparse(x$formula), "\n", sep = "")
  invisible(x)
}

report <- function(model, path) {
  invisible(as.character(reticulate::py_str(model$estimator$report(path))))
}

save_model <- function(model, path) {
  model$estimator$save(path)
  invisible(path)
}

load_model <- function(path) as_model(python_module()$load(path))

export_model <- function(model, path, to) {
  model$estimator$export(path, to = to)
  invisible(path)
}
