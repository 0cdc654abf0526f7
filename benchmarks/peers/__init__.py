"""What a user would pick instead, asked as its own clients ask it."""
