"""What people hold in their hands: the lab, sessions, queries and what they answer."""
