# By the id of the invitation, which `sluice invitation list` shows.
terraform import sluice_member_invitation.grace inv_01JAB3CD4EF5GH6JK7MN8PQ9RS
