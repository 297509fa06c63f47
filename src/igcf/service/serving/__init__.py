"""What happens between a request and the store: users in memory, recommending, reacting, swapping the model."""
