"""What is shown: status, capacity, queue, why, positions, ETAs, forecasts. Nothing here writes."""
